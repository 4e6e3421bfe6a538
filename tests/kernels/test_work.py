"""What every operation tells a benchmark: the same by torch, the cases of a step, and the least work."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from scripts import bench_kernels
from scripts.bench_ceilings import Ceilings
from scripts.bench_kernels import LIBRARYS, Bench, cases_of, complete, operations, parse, plan
from ttsbench.kernels import attention, causal_conv, rms_norm, shift_tails
from ttsbench.kernels.attention import cases as attention_cases
from ttsbench.kernels.causal_conv import cases as conv_cases
from ttsbench.kernels.draw import cases as draw_cases
from ttsbench.kernels.rms_norm import cases as norm_cases
from ttsbench.kernels.shift_tails import cases as shift_cases
from ttsbench.kernels.work import RELEASED, Work

OPERATIONS = operations()


def tensors(value: Any) -> list[Tensor]:
    """All tensors inside, in order."""
    if isinstance(value, Tensor):
        return [value]
    parts = value if isinstance(value, tuple) else ()
    if is_dataclass(value) and not isinstance(value, type):
        parts = tuple(getattr(value, field.name) for field in fields(value))
    return [tensor for part in parts for tensor in tensors(part)]


def unpoisoned(work: Work) -> Work:
    """Pages that nobody may read hold NaN, and torch's attention multiplies them by 0."""
    for tensor in tensors(work.given):
        if tensor.is_floating_point():
            tensor.nan_to_num_()
    return work


def test_every_folder_with_a_kernel_is_found() -> None:
    """Red when a folder without `cases.py` slips through."""
    assert {"attention", "causal_conv", "draw", "rms_norm", "shift_tails"} <= set(OPERATIONS)
    assert len(OPERATIONS) >= 12


@pytest.mark.parametrize("op", OPERATIONS)
def test_an_operation_can_be_benchmarked(op: str) -> None:
    """Red when a folder lacks a part of `work.py`'s protocol, or its test the comparison."""
    cases = cases_of(op)
    assert callable(import_module(f"tests.kernels.test_{op}").compare)
    for sizes in RELEASED.values():
        assert cases.released(1, sizes)
        for rows in (1, 32):
            names = [case.name for case in cases.released(rows, sizes)]
            assert len(set(names)) == len(names)


@pytest.mark.parametrize("op", OPERATIONS)
def test_torch_does_the_same_and_the_work_is_positive(op: str) -> None:
    """Outputs and everything written, on a CPU, where the operation is its reference. Red when a baseline leaves a part
    out, such as the tail, the residual or the cache write.
    """
    cases = cases_of(op)
    for case in cases.SMALL[:10]:
        ours, theirs = (unpoisoned(cases.work(case, "cpu", torch.float32)) for _ in range(2))
        got, want = theirs.plain(*theirs.given), ours.kernel(*ours.given)
        pairs = zip(tensors((got, theirs.given)), tensors((want, ours.given)), strict=True)
        for a, b in pairs:
            assert torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True), case.name
        assert ours.num_bytes > 0
        assert ours.flops >= 0


@pytest.mark.parametrize("op", OPERATIONS)
def test_cold_tensors_are_renewed_and_no_other(op: str) -> None:
    """Red when `cold` names a tensor that is not among the arguments, or a copy shares one."""
    for case in cases_of(op).SMALL[:10]:
        work = cases_of(op).work(case, "cpu", torch.float32)
        cold = {id(tensor) for tensor in work.cold if tensor is not None}
        first, second, third = ({id(t): t for t in tensors(given)} for given in work.copies(3))
        assert cold <= first.keys()
        assert first.keys() - second.keys() == first.keys() - third.keys() == cold
        assert second.keys() & third.keys() == first.keys() - cold
        work.kernel(*work.copies(2)[1])


def test_the_least_work_by_hand() -> None:
    """Of some cases. Red when bytes are counted twice, a weight is forgotten, or a table is taken whole."""
    first, later = (
        norm_cases.work(norm_cases.Case("", 8, 64, residual=r), "cpu", torch.bfloat16) for r in (False, True)
    )
    assert first.num_bytes == 2 * (8 * 64 + 64 + 8 * 64)
    assert later.num_bytes == 2 * (2 * 8 * 64 + 64 + 2 * 8 * 64)

    conv = conv_cases.work(conv_cases.Case("", 2, 4, 32, 48, taps=7, residual=True, plain=True), "cpu", torch.bfloat16)
    inputs, outputs = 2 * (6 + 4) * 32, 3 * 2 * 4 * 48
    assert conv.num_bytes == 2 * (inputs + outputs + 7 * 32 * 48) + 4 * 3 * 48
    assert conv.flops == 2 * 2 * 4 * 7 * 32 * 48

    decode = attention_cases.work(attention_cases.Case("", ((64, 1), (10, 1)), 16, 8, 128), "cpu", torch.bfloat16)
    qkv, out, read, written = 2 * 32 * 128, 2 * 16 * 128, 2 * 74 * 8 * 128, 2 * 2 * 8 * 128
    assert decode.num_bytes == 2 * (qkv + out + read + written)
    assert decode.flops == 4 * (65 + 11) * 16 * 128

    site = shift_tails.TailSite(channels=16, length=9, tail=6)
    shift = shift_cases.work(shift_cases.Case("", 3, (site,)), "cpu", torch.bfloat16)
    assert shift.num_bytes == 2 * 4 * 3 * 6 * 16


def test_the_code_predictors_cache_is_warm_and_the_talkers_cold() -> None:
    decode, _, _, predictor = (attention_cases.work(case, "cpu", torch.bfloat16)
                               for case in attention_cases.released(1, RELEASED["1.7b"]))  # fmt: skip
    assert len(decode.cold) == 2
    assert predictor.cold == ()


def test_torchs_draw_looks_at_nothing_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its first run, as a graph is captured then. Red when copies have settings of their own."""
    work = draw_cases.work(draw_cases.SMALL[0], "cpu", torch.float32)
    work.plain(*work.given)
    monkeypatch.setattr(Tensor, "tolist", lambda self: pytest.fail("a look at the host"))
    for given in work.copies(3):
        work.plain(*given)


def test_what_is_the_librarys_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one operation that leaves all its cases to it. Red when such a case gets a time, passes without a word, or
    makes the exit code 1.
    """
    cases = cases_of("swiglu")
    made = cases.work
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(cases, "work", lambda *what: replace(made(*what), is_librarys=True))
    monkeypatch.setattr(bench_kernels, "graph_us", lambda calls: pytest.fail("timed"))
    bench = Bench(parse(["--op", "swiglu", "--device", "cpu"]))
    tasks = plan(["swiglu"], [1, 8], "1.7b", small=False)
    lines = [bench.one(task, Ceilings(1.0, 1.0), 50_000_000) for task in tasks]
    assert lines == [{"kind": "skipped", **task.about, "why": LIBRARYS} for task in tasks]
    assert not bench.failed
    assert complete(lines)
    assert not complete([*lines, {"kind": "skipped", "why": "--seconds are spent"}])


def test_the_operations_are_what_the_benchmark_times() -> None:
    """Red when `work` times a reference, which on a GPU it would beat easily."""
    for cases, operation in (
        (attention_cases, attention.paged_attention),
        (conv_cases, causal_conv.causal_conv),
        (norm_cases, rms_norm.add_rms_norm),
    ):
        assert cases.work(cases.SMALL[0], "cpu", torch.float32).kernel is operation
