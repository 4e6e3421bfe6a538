"""Draws: the kernels against the reference, and what all of them owe their callers.

A check runs over the Triton kernel in the interpreter, over the CUDA kernel in the emulator, and over both on a GPU;
what it imports lazily needs Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.kernels.emulated import EmulatedKernel, EmulatedModule, changed, tensors
from tests.kernels.interpreted import run_interpreted
from ttsbench.core import DrawParams
from ttsbench.kernels import draw
from ttsbench.kernels.compilations import compilations
from ttsbench.kernels.cuda_source import CudaKernel, CudaModule
from ttsbench.kernels.draw import reference
from ttsbench.kernels.draw.cases import BOOK, CASES, MIXED, NUM_CODEBOOKS, Case, Draws, Inputs, make, run, settings_of
from ttsbench.kernels.draw.philox import LARGEST_UNIFORM, uniform_of, uniforms
from ttsbench.kernels.draw.types import RowDraws

TALKER, TIED = (case for case in CASES if case.name in ("talker, mixed settings", "talker, mixed settings, tied"))
SMALL = replace(TALKER, vocabulary=120, width=8)
NUDGE = 1e-6
"""Float32 exponentials of two libraries move a boundary by a few 1e-7 of the whole."""


KERNELS = pytest.mark.parametrize("name", ["cuda", "triton"])
"""On a GPU."""

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def kernel(name: str) -> Draws:
    """`cuda`, `triton`, or `emulated`: the first on a CPU."""
    if name == "triton":
        from ttsbench.kernels.draw import triton

        return triton
    from ttsbench.kernels.draw import cuda

    if name == "cuda":
        return cuda
    return emulated()


def emulated(other: Path | None = None, memory: Sequence[Tensor] = ()) -> Draws:
    """The CUDA kernel, or that of another source, on a CPU; loads and stores past L1 may touch `memory` alone if given.

    Threads go in an order of their own: in theirs, a barrier that is missing would not be missed.
    """
    from ttsbench.kernels.draw import cuda

    def compile_kernel(
        source: Path, defines: Mapping[str, int | str], name: str, device: torch.device
    ) -> SimpleNamespace:
        assert device == torch.device("cpu")
        kernel = EmulatedModule(other or source, defines).function(name)

        def launch(*what: Any, programmatic: bool) -> None:
            assert programmatic
            kernel.launch(*what, programmatic=True, seed=7, memory=memory)

        return SimpleNamespace(launch=launch)

    return SimpleNamespace(
        draw_code=partial(cuda.draw_code, compile_kernel=compile_kernel),
        draw_first_code=partial(cuda.draw_first_code, compile_kernel=compile_kernel),
    )


def steady_rows(given: Inputs) -> Tensor:
    """Rows [B] whose code stays when uniform and top-p move by `NUDGE`: those of which the reference is sure."""
    logits, rows = given.logits.float(), given.rows
    if given.rules is not None:
        logits = reference._by_the_rules(logits, rows, given.rules)
    draws = RowDraws.of(given.settings, rows.slots)
    book = torch.tensor([BOOK if given.rules is None else 0])
    u = uniforms(rows.seeds[rows.slots], rows.frames, book)[:, 0]
    codes = [
        reference.draw_codes(
            logits, replace(draws, top_p=(draws.top_p + p).clamp(max=1)), (u + v).clamp(0, LARGEST_UNIFORM)
        )
        for p in (-NUDGE, NUDGE)
        for v in (-NUDGE, NUDGE)
    ]
    return torch.stack(codes).eq(codes[0]).all(dim=0)


def compare(case: Case, device: str, dtype: torch.dtype | None = None, seed: int = 0, name: str | None = None) -> None:
    """Codes, flags, marks and embeddings of the kernel are those of the reference, and nothing else is written.

    In the case's own dtype if none is given, and by the kernel that the device would choose.
    """
    case = replace(case, dtype=dtype or case.dtype)
    most = (4 if len(case.params) == 1 else 18) if device == "cpu" else None  # the interpreter takes some 30 ms a row
    ours, theirs = make(case, device, seed, most), make(case, "cpu", seed, most)
    steady = steady_rows(theirs)
    assert steady.float().mean() > 0.9, case.name
    run(reference, theirs)
    run(draw if name is None else kernel(name), ours)
    outcome = [
        (ours.drawn.codes, theirs.drawn.codes),
        (ours.drawn.finite, theirs.drawn.finite),
    ]
    if ours.rules is not None and theirs.rules is not None:
        outcome.append((ours.rules.seen[ours.rows.slots], theirs.rules.seen[theirs.rows.slots]))
    if ours.out is not None and theirs.out is not None:
        outcome.append((ours.out, theirs.out))
        assert not ours.out._base[:, 0].any(), case.name  # type: ignore[index]
    if ours.norm is not None and theirs.norm is not None:
        outcome.append((ours.norm.squares, theirs.norm.squares))
        exact = name != "triton" or device != "cpu"  # the interpreter cuts bfloat16 off and does not round
        off = 0.0 if exact else 2**-7
        torch.testing.assert_close(ours.norm.rows.cpu()[steady], theirs.norm.rows[steady], rtol=off, atol=0)
    for of_kernel, of_reference in outcome:
        wrong = int((of_kernel.cpu() != of_reference)[steady].sum())
        assert wrong == 0, f"{case.name}, {case.dtype}: {wrong} values differ"


def check_cases(device: str, name: str = "triton") -> None:
    for case in CASES:
        compare(case, device, name=name)
    for seed in range(1, 3):
        compare(SMALL, device, seed=seed, name=name)
        compare(replace(SMALL, tied=True), device, seed=seed, name=name)


def test_the_kernel_draws_what_the_reference_draws():
    """Over all settings in one batch. Red if the kernel reads a setting by row and not by slot, cuts before the k-th
    or loses a tie with it, marks no code, forgets the nucleus, or copies a neighbouring row of the table.
    """
    run_interpreted(check_cases)


def test_the_emulated_kernel_draws_what_the_reference_draws():
    """As above. Red too if the limit that the nearest codes give is taken for the k-th itself, if a candidate finds its
    place out of order, or if a place between warps is written again too early.
    """
    check_cases("cpu", "emulated")


@pytest.mark.gpu
@KERNELS
def test_the_kernel_draws_what_the_reference_draws_on_a_gpu(name: str):
    """Red for what the interpreter cannot know: a fused multiply-add, a race between loading and marking."""
    check_cases("cuda", name)


WAIT = "    gdc_wait();\n    gdc_launch_dependents();\n"
LOAD = "\n    float x[HELD];\n    load_logits(x, p, row, first);\n"
RULES = """    float y[HELD] = {};
    apply_rules(y, p, p.seen + slot * p.seen_stride, penalty, too_early, first);
"""


def check_early(case: Case, folder: Path, before: str = "", after: str = "") -> None:
    """The kernel up to its wait, perhaps with another text in place of one of its source."""
    from ttsbench.kernels.draw import cuda

    text = cuda.SOURCE.read_text()
    assert text.count(WAIT) == text.count("gdc_wait") == text.count("gdc_launch_dependents") == 1
    assert not before or text.count(before) == 1, "the line is not there to be broken"
    text = text.replace(before, after).replace("    gdc_launch_dependents();\n", "    return;\n")
    given, untouched = make(case), make(case)
    settled = [*tensors(given.rows), *tensors(given.settings)]
    if given.rules is not None:
        settled += [given.rules.penalty, given.rules.min_frames]
    run(emulated(changed(cuda.SOURCE, text, folder), settled), given)
    assert all(torch.equal(now, then) for now, then in zip(tensors(given), tensors(untouched), strict=True))


EARLY = (
    Case("first, eight at a time", 2, 120, 8, MIXED, first=True),
    Case("first, one at a time", 2, 61, 7, MIXED, torch.bfloat16, first=True),
    Case("later, normed", 2, 64, 8, MIXED, normed=True),
    Case("later, one at a time", 2, 61, 7, MIXED, torch.bfloat16),
)


@pytest.mark.parametrize("case", EARLY, ids=lambda case: case.name)
def test_nothing_is_touched_early_that_a_kernel_in_front_may_write(case: Case, tmp_path: Path) -> None:
    """Of what is loaded past L1. Red when logits or `seen` are read before the wait, something is written there, or a
    thread does not wait; and when the next kernel may start sooner, which is what lets it read early.
    """
    check_early(case, tmp_path)


@pytest.mark.parametrize(
    ("case", "before", "after", "said"),
    [
        (EARLY[0], WAIT, "    gdc_launch_dependents();\n", "never waited"),
        (EARLY[2], WAIT, "    if (thread != 5) gdc_wait();\n    gdc_launch_dependents();\n", "never waited"),
        (EARLY[2], WAIT + LOAD, LOAD + WAIT, "outside the memory of this launch"),
        (EARLY[3], WAIT + LOAD, LOAD + WAIT, "outside the memory of this launch"),
        (EARLY[0], WAIT, RULES + WAIT, "outside the memory of this launch"),
        (EARLY[1], WAIT, RULES + WAIT, "outside the memory of this launch"),
        (EARLY[2], WAIT, "    p.codes[row * p.codes_stride] = 0;\n" + WAIT, "assert"),
    ],
    ids=["no wait", "one thread", "logits", "logits one by one", "seen", "seen one by one", "a code"],
)
def test_what_is_touched_early_is_noticed(case: Case, before: str, after: str, said: str, tmp_path: Path) -> None:
    """A line of the source changed: the test above must fail, so it can."""
    with pytest.raises((AssertionError, RuntimeError), match=said):
        check_early(case, tmp_path, before, after)


def probe(device: str, folder: Path) -> Callable[[str], CudaKernel | EmulatedKernel]:
    """The kernels of `draw_probe.cu` by name."""
    from ttsbench.kernels.draw import cuda

    text = cuda.SOURCE.read_text() + Path(__file__).with_name("draw_probe.cu").read_text()
    source, defines = changed(cuda.SOURCE, text, folder), {"HELD": 8, "VECTOR": 8, "CHUNK": 16}
    return (CudaModule(source, defines) if device == "cuda" else EmulatedModule(source, defines)).function


def check_uniforms(device: str) -> None:
    from tests.kernels.draw_probe import kernel_uniforms, kernel_uniforms_of

    check_uniforms_by(kernel_uniforms, kernel_uniforms_of, device)


def check_uniforms_by(
    kernel_uniforms: Callable[[Tensor, Tensor, Tensor], Tensor],
    kernel_uniforms_of: Callable[[Tensor], Tensor],
    device: str,
) -> None:
    seeds = torch.cat((torch.tensor([0, 1, 2**63 - 1, 2**32 - 1, 2**32]), torch.randint(0, 2**62, (59,)))).to(device)
    frames = torch.cat((torch.tensor([0, 2**31 + 5, 2**32 - 1]), torch.arange(61))).to(device)
    books = (torch.arange(64) % NUM_CODEBOOKS).to(device)
    expected = torch.cat([uniforms(seeds[i : i + 1], frames[i : i + 1], books[i : i + 1])[0] for i in range(64)])
    assert torch.equal(kernel_uniforms(seeds, frames, books.int()), expected)
    words = torch.tensor([0, 255, 256, 2**31, 2**32 - 257, 2**32 - 256, 2**32 - 1], device=device)
    assert torch.equal(kernel_uniforms_of(words), uniform_of(words))
    assert float(kernel_uniforms_of(words).max()) == LARGEST_UNIFORM


def test_the_kernel_has_the_same_random_numbers():
    """Bit for bit; `philox` itself meets the published answers. Red if the seed's high word is dropped, frame and
    codebook change places, or the last number rounds to 1.
    """
    run_interpreted(check_uniforms)


@DEVICES
def test_the_cuda_kernel_has_the_same_random_numbers(device: str, tmp_path: Path) -> None:
    """As above."""
    kernels = probe(device, tmp_path)

    def kernel_uniforms(*what: Tensor) -> Tensor:
        out = torch.zeros(len(what[0]), device=device)
        kernels("uniforms").launch((1,), (len(out),), (*what, out))
        return out

    def kernel_uniforms_of(words: Tensor) -> Tensor:
        out = torch.zeros(len(words), device=device)
        kernels("uniforms_of").launch((1,), (len(out),), (words, out))
        return out

    check_uniforms_by(kernel_uniforms, kernel_uniforms_of, device)


def rows_to_divide() -> tuple[Tensor, Tensor]:
    """Float32 [n, 8] and their divisors [n]: likely ones, any that are, the ends of the exponents, and 2^40, from where
    the kernel has no short way, with its neighbours.
    """
    random = torch.Generator().manual_seed(0)
    n = 4096
    bits = torch.randint(0, 0x7F800000, (n, 9), generator=random, dtype=torch.int32)
    likely = torch.rand(n, 9, generator=random) * 40 + 1e-3
    near = torch.exp2(torch.rand(n, 9, generator=random) * 8 - 4) * 2.0**40
    tiny, least, most = torch.finfo(torch.float32).tiny, 2.0**-149, torch.finfo(torch.float32).max
    edge = torch.tensor([2.0**40, 2.0**-40])
    edge = torch.cat((edge, edge.nextafter(torch.zeros(2)), edge.nextafter(torch.ones(2) * most)))
    ends = torch.tensor([0.0, least, 3 * least, tiny, 1 - 2.0**-24, 1.0, 1 + 2.0**-23, 3.0, most, *edge.tolist()])
    some = ends[torch.randint(0, len(ends), (n, 9), generator=random)]
    all_rows = torch.cat((bits.view(torch.float32), likely, likely * torch.exp2(-near / 2.0**40), near, 1 / near, some))
    x, by = all_rows[:, :8] * (1 - 2 * torch.randint(0, 2, (len(all_rows), 8), generator=random)), all_rows[:, 8]
    by = torch.where(by > 0, by, torch.ones(()))
    return torch.cat((x, likely[:, :8])).contiguous(), torch.cat((by, some[:, 8].clamp(min=least)))


@DEVICES
def test_many_quotients_by_one_are_those_of_a_division(device: str, tmp_path: Path) -> None:
    """The sign of a zero apart, which nobody asks for. Red when the first quotient is taken as it is, or the short way
    where a quotient or a remainder leaves the range of normal numbers.
    """
    x, by = rows_to_divide()
    got = x.clone().to(device)
    probe(device, tmp_path)("divide_rows").launch((-(-len(x) // 128),), (128,), (got, by.to(device), len(x)))
    wrong = got.cpu() != x / by[:, None]
    assert not wrong.any(), (x[wrong][:3], by[wrong.any(dim=1)][:3], int(wrong.sum()))


@pytest.mark.gpu
def test_the_kernel_has_the_same_random_numbers_on_a_gpu():
    """Red if words are signed on the way."""
    check_uniforms("cuda")


def check_broken_logits(draws: Callable[[Inputs], Tensor], device: str) -> None:
    for case in (SMALL, replace(SMALL, first=False)):
        check_broken_logits_of(case, draws, device)


def check_broken_logits_of(case: Case, draws: Callable[[Inputs], Tensor], device: str) -> None:
    whole, broken = make(case, device, most_rows=18), make(case, device, most_rows=18)
    faults = {1: float("nan"), 4: float("inf"), 5: float("-inf"), 10: float("nan")}
    for row, fault in faults.items():
        broken.logits[row, 7 * row % SMALL.vocabulary] = fault
    broken.logits[10] = float("nan")
    whole.drawn.finite[2] = broken.drawn.finite[2] = False
    expected, codes = draws(whole), draws(broken)
    sound = torch.ones(18, dtype=torch.bool, device=device)
    sound[list(faults)] = False
    assert torch.equal(codes, expected * sound)
    if not case.first:
        sound[2] = False
    assert torch.equal(broken.drawn.finite, sound)
    assert broken.out is not None
    assert torch.equal(broken.out, broken.table[codes])


def check_broken_logits_in_the_kernel(device: str, name: str = "triton") -> None:
    check_broken_logits(lambda given: run(kernel(name), given), device)


def test_a_row_with_broken_logits_is_flagged_and_draws_code_0():
    """NaN or an infinity marks its row alone, until the next frame, and no embedding is read from outside the table.

    Red if the first code leaves a flag as it was, a later one sets it anew, or a code is drawn from NaN.
    """
    check_broken_logits(lambda given: run(reference, given), "cpu")


def test_a_row_with_broken_logits_is_flagged_and_draws_code_0_in_the_kernel():
    """As above. Red if "infinite" is asked for where "not finite" is meant, since NaN is not infinite."""
    run_interpreted(check_broken_logits_in_the_kernel)


def test_a_row_with_broken_logits_is_flagged_and_draws_code_0_in_the_emulated_kernel():
    """As above."""
    check_broken_logits_in_the_kernel("cpu", "emulated")


@pytest.mark.gpu
@KERNELS
def test_a_row_with_broken_logits_is_flagged_and_draws_code_0_on_a_gpu(name: str):
    """As above. Red if NaN makes a search run on for ever."""
    check_broken_logits_in_the_kernel("cuda", name)


def check_suppressed(draws: Callable[[Inputs], Tensor], device: str) -> None:
    """Control ids and an early end have by far the largest logits: rows differ in frame and in settings."""
    given = make(SMALL, device, most_rows=18)
    rules = given.rules
    assert rules is not None
    given.logits[:, rules.first_control_id :] += 40
    codes = draws(given)
    slots = given.rows.slots
    may_end = given.rows.frames >= rules.min_frames[slots]
    assert may_end.any()
    assert not may_end.all()
    assert torch.equal(codes == rules.eos, may_end)
    assert (codes[~may_end] < rules.first_control_id).all()


def check_suppressed_in_the_kernel(device: str, name: str = "triton") -> None:
    check_suppressed(lambda given: run(kernel(name), given), device)


def test_control_ids_are_never_drawn_and_speech_ends_only_from_min_frames_on():
    """Red if the end is suppressed with the control ids, or compared with <= instead of <."""
    check_suppressed(lambda given: run(reference, given), "cpu")


def test_control_ids_are_never_drawn_in_the_kernel():
    """As above, for the kernel's own mask."""
    run_interpreted(check_suppressed_in_the_kernel)


def test_control_ids_are_never_drawn_in_the_emulated_kernel():
    """As above."""
    check_suppressed_in_the_kernel("cpu", "emulated")


@pytest.mark.gpu
@KERNELS
def test_control_ids_are_never_drawn_on_a_gpu(name: str):
    """As above."""
    check_suppressed_in_the_kernel("cuda", name)


def check_shared_slot(device: str, name: str = "triton") -> None:
    """Every third row becomes a padding row on one slot that no other row has."""
    given, padded = (make(SMALL, device, most_rows=15) for _ in range(2))
    spare = min(set(range(18)) - set(given.rows.slots.tolist()))
    padded.rows.slots[::3] = spare
    expected, codes = run(kernel(name), given), run(kernel(name), padded)
    real = torch.arange(15, device=device) % 3 != 0
    assert torch.equal(codes[real], expected[real])
    assert ((codes >= 0) & (codes < SMALL.vocabulary)).all()
    assert given.rules is not None
    assert padded.rules is not None
    kept = given.rows.slots[real]
    assert torch.equal(padded.rules.seen[kept], given.rules.seen[kept])


def test_padding_rows_on_one_slot_reach_no_real_row():
    """Red if a row marks or reads by its number."""
    run_interpreted(check_shared_slot)


def test_padding_rows_on_one_slot_reach_no_real_row_in_the_emulated_kernel():
    """As above."""
    check_shared_slot("cpu", "emulated")


@pytest.mark.gpu
@KERNELS
def test_padding_rows_on_one_slot_reach_no_real_row_on_a_gpu(name: str):
    """As above, with programs that run at the same time."""
    check_shared_slot("cuda", name)


def check_top_k(device: str, name: str = "triton") -> None:
    """Codes fall in likelihood by hardly anything, all alike or two by two: each that is kept is drawn in 64 rows."""
    n, size = 64, 256
    for top_k, together, kept in ((3, 1, 3), (3, 2, 4), (4, 2, 4), (1, 2, 2)):
        case = Case("top-k", n, size, 4, (DrawParams(True, 1.0, top_k),))
        for module, where in ((reference, "cpu"), (kernel(name), device)):
            given = make(case, where)
            given.logits.copy_(-1e-3 * (torch.arange(size) // together))
            assert set(run(module, given).tolist()) == set(range(kept)), (top_k, together)


def test_top_k_keeps_k_codes_and_ties_with_the_last():
    """Red with < for <=, or if equal codes are counted out."""
    run_interpreted(check_top_k)


def test_top_k_keeps_k_codes_and_ties_with_the_last_in_the_emulated_kernel():
    """As above. Red too if all candidates are kept: neighbours are of one thread, so five of them are for three."""
    check_top_k("cpu", "emulated")


@pytest.mark.gpu
@KERNELS
def test_top_k_keeps_k_codes_and_ties_with_the_last_on_a_gpu(name: str):
    """As above."""
    check_top_k("cuda", name)


def check_near_ties(device: str, name: str = "triton") -> None:
    """Of three codes the second and third are one step of float32 apart, and no more so by temperature: both are the
    second of two that are kept.
    """
    temperature, near = np.float32(0.9), np.float32(0.91)
    while near / temperature != np.nextafter(near, np.float32(1)) / temperature:
        near = np.nextafter(near, np.float32(1))
    check_kept((0.0, -float(near), -float(np.nextafter(near, np.float32(1)))), DrawParams(True, 0.9, 2), device, name)


def check_kept(logits: Sequence[float], params: DrawParams, device: str, name: str) -> None:
    """All of the few codes are drawn, and no other. They are eight apart: the CUDA kernel's neighbours in a thread."""
    for module, where in ((reference, "cpu"), (kernel(name), device)):
        given = make(Case("kept", 64, 256, 4, (params,)), where)
        given.logits.fill_(-1e30)
        given.logits[:, : 8 * len(logits) : 8] = torch.tensor(logits, device=where)
        assert set(run(module, given).tolist()) == set(range(0, 8 * len(logits), 8))


def test_codes_that_the_temperature_makes_equal_are_ties():
    """Red when the k-th is compared before the division."""
    run_interpreted(check_near_ties)


def test_codes_that_the_temperature_makes_equal_are_ties_in_the_emulated_kernel():
    """As above. Red when candidates reach no further than the k-th itself."""
    check_near_ties("cpu", "emulated")


@pytest.mark.gpu
@KERNELS
def test_codes_that_the_temperature_makes_equal_are_ties_on_a_gpu(name: str):
    """As above."""
    check_near_ties("cuda", name)


def check_hot_ties(device: str, name: str) -> None:
    """At such a temperature two distances, one by a thousandth larger, are the same few of the smallest steps there
    are. One at which candidates are still sought by their logits, and one above.
    """
    for temperature, near in ((2.0**39, 2.0**-108), (2.0**100, 2.0**-43)):
        check_kept((0.0, -near, -near * 1.001), DrawParams(True, temperature, 2), device, name)


def test_a_high_temperature_makes_ties_of_very_different_codes_in_the_emulated_kernel():
    """Red when candidates reach too short a way beyond the k-th, or are sought by logits at any temperature."""
    check_hot_ties("cpu", "emulated")


@pytest.mark.gpu
def test_a_high_temperature_makes_ties_of_very_different_codes_on_a_gpu():
    """As above."""
    check_hot_ties("cuda", "cuda")


def check_greedy_tie(device: str, name: str = "triton") -> None:
    """Neighbours, of one thread of the CUDA kernel, and two far apart."""
    for pair in ((40, 41), (46, 47), (7, 200)):
        for module, where in ((reference, "cpu"), (kernel(name), device)):
            given = make(Case("tie", 2, 256, 4, (DrawParams(do_sample=False),)), where)
            given.logits[:, list(pair)] = 50.0
            assert run(module, given).tolist() == [pair[0]] * 2


def test_the_lowest_of_equal_codes_is_taken_greedily():
    """Red when the highest is, or any."""
    run_interpreted(check_greedy_tie)


def test_the_lowest_of_equal_codes_is_taken_greedily_in_the_emulated_kernel():
    """As above. Red too when a thread goes through its codes upwards and keeps the last."""
    check_greedy_tie("cpu", "emulated")


@pytest.mark.gpu
@KERNELS
def test_the_lowest_of_equal_codes_is_taken_greedily_on_a_gpu(name: str):
    """As above."""
    check_greedy_tie("cuda", name)


def check_other_table(device: str, name: str = "triton") -> None:
    """Logits in one dtype, embeddings in another."""
    for case in (SMALL, replace(SMALL, first=False)):
        for logits, table in ((torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32)):
            given = make(replace(case, dtype=table), device, most_rows=4)
            given = replace(given, logits=given.logits.to(logits))
            codes = run(kernel(name), given)
            assert given.out is not None
            assert torch.equal(given.out, given.table[codes])


def test_embeddings_need_not_be_of_the_logits_dtype():
    """Red when one path takes what another refuses."""
    run_interpreted(check_other_table)


def test_embeddings_need_not_be_of_the_logits_dtype_in_the_emulated_kernel():
    """As above."""
    check_other_table("cpu", "emulated")


@pytest.mark.gpu
@KERNELS
def test_embeddings_need_not_be_of_the_logits_dtype_on_a_gpu(name: str):
    """As above."""
    check_other_table("cuda", name)


def check_tied_nucleus(device: str, name: str = "triton") -> None:
    """Few different logits whose probabilities have exact sums, so that the border is met exactly."""
    n = 16
    for logits, top_p, kept in (
        ([0.0] * 8, 0.5, {4, 5, 6, 7}),
        ([0.0] * 8, 0.51, {3, 4, 5, 6, 7}),
        ([0.0] * 8, 1e-9, {7}),
        ([3.0, -90.0, 3.0, -90.0], 0.5, {2}),
        ([3.0, -90.0, 3.0, -90.0], 1e-9, {2}),
    ):
        case = Case("nucleus", n, len(logits), 4, (DrawParams(True, 1.0, 0, top_p),))
        for module, where in ((reference, "cpu"), (kernel(name), device)):
            given = make(case, where)
            given.logits.copy_(torch.tensor(logits))
            assert set(run(module, given).tolist()) == kept


def test_the_nucleus_leaves_out_the_lower_of_equal_codes():
    """At the border exactly, and never all of them. Red with < for <=, or without the guard of the last code."""
    run_interpreted(check_tied_nucleus)


def test_the_nucleus_leaves_out_the_lower_of_equal_codes_in_the_emulated_kernel():
    """As above."""
    check_tied_nucleus("cpu", "emulated")


@pytest.mark.gpu
@KERNELS
def test_the_nucleus_leaves_out_the_lower_of_equal_codes_on_a_gpu(name: str):
    """As above."""
    check_tied_nucleus("cuda", name)


@pytest.mark.parametrize("case", [TIED, SMALL, replace(SMALL, first=False)])
def test_what_a_frame_shares_changes_no_draw(case: Case):
    """With and without `prepared`, thrice from one memo. Red if its uniforms are another codebook's, or its settings
    another DrawSettings'.
    """
    rows = draw.prepared(make(case).rows, NUM_CODEBOOKS)
    assert rows.memo is not None
    own = make(case).settings
    greedy = settings_of([DrawParams(do_sample=False)] * len(own.sample))
    for settings in (greedy, own, greedy):
        shared = run(reference, replace(make(case), rows=rows, settings=settings))
        assert torch.equal(shared, run(reference, replace(make(case), settings=settings)))


def test_a_cpu_draws_by_the_reference():
    """Both entries, with all that they were given. Red if one loses an argument on the way."""
    for case in (SMALL, replace(SMALL, first=False), replace(SMALL, first=False, copies=False)):
        expected, given = make(case), make(case)
        assert torch.equal(run(draw, given), run(reference, expected))
        if given.out is not None and expected.out is not None:
            assert torch.equal(given.out, expected.out)


@pytest.mark.gpu
@KERNELS
def test_settings_compile_nothing(name: str):
    """One kernel serves every top-k, top-p, codebook and batch. Red if any of them becomes a compile-time value."""
    module = kernel(name)
    base = replace(SMALL, first=False)
    first = None
    for book in (2, 1, 15, 0, 16):
        for params in MIXED:
            for rows in (1, 16, 17):
                given = make(replace(base, params=(params,), rows=rows), "cuda")
                module.draw_code(
                    book % 16, given.logits, given.rows, given.settings, given.drawn, given.table, given.out
                )
        if first is None:
            first = compilations()
    assert compilations() == first
