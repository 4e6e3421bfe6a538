"""The kernel benchmark without a GPU: what it plans, what it says of a kernel that is off, and its arithmetic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from scripts import bench_kernels
from scripts.bench_ceilings import Ceilings
from scripts.bench_kernels import Bench, Task, cases_of, copies, measure, operations, parse, plan
from scripts.bench_table import kernel_table
from tests.kernels import test_rms_norm, test_swiglu
from ttsbench.kernels.work import RELEASED, Work

CEILINGS = Ceilings(bytes_per_s=4e12, flops_per_s=8e14)


def make_work(num_bytes: float = 8e6, flops: float = 0, cold: int = 0) -> Work:
    tensor = torch.zeros(max(cold, 1) // 4 + 1)
    held = (tensor,) if cold else ()
    return Work(lambda x: "ours", lambda x: "torch", (tensor,), held, num_bytes, flops)


def timer_of(us: dict[str, float], made: list[int]) -> Callable[[Sequence[Callable[[], object]]], float]:
    """A timer that knows which side it times, and notes how many calls it got."""

    def timer(calls: Sequence[Callable[[], object]]) -> float:
        made.append(len(calls))
        return us[str(calls[0]())]

    return timer


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def test_a_plan_has_every_case_of_every_operation_once() -> None:
    """Red when an operation, its odd cases or a size is left out, or a case that two sizes share stands twice."""
    tasks = plan(operations(), [32, 1], "1.7b", small=False)
    assert {task.op for task in tasks} == set(operations())
    assert len({(task.op, task.case) for task in tasks}) == len(tasks)
    for op in operations():
        mine = [task for task in tasks if task.op == op]
        assert {task.case for task in mine} >= set(cases_of(op).SMALL)
        assert {task.rows for task in mine} <= {None, 1, 32}
        assert {task.case for task in mine if task.rows == 1} == set(cases_of(op).released(1, RELEASED["1.7b"]))


def test_the_small_model_has_shapes_of_its_own() -> None:
    """Red when --shape is not passed on."""
    widths = [
        {task.case.inner for task in plan(["swiglu"], [1], shape, small=False) if task.rows}
        for shape in ("1.7b", "0.6b")
    ]
    assert widths == [{3072, 6144}, {3072}]


def test_figures_of_a_case() -> None:
    """8 MB in 4 us are 2 TB/s, half of the bandwidth. Red when the sides are swapped or a unit is off."""
    made: list[int] = []
    line = measure(Task("swiglu", cases_of("swiglu").SMALL[0], 1), make_work(), CEILINGS,
                   timer_of({"ours": 4.0, "torch": 10.0}, made), 50_000_000)  # fmt: skip
    assert (line["us"], line["torch_us"], line["times_faster"]) == (4.0, 10.0, 2.5)
    assert (line["gb_per_s"], line["floor_us"], line["share_of_floor"]) == (2000.0, 2.0, 0.5)
    assert made == [8, 8]


def test_the_floor_is_the_larger_of_both() -> None:
    """16 GFLOP take 20 us at 800 TFLOP/s, and 8 MB 2 us."""
    work = make_work(flops=1.6e10)
    line = measure(Task("swiglu", cases_of("swiglu").SMALL[0], 1), work, CEILINGS, lambda calls: 40.0, 50_000_000)
    assert (line["floor_us"], line["share_of_floor"], line["tflop_per_s"]) == (20.0, 0.5, 400.0)


def test_a_baseline_that_cannot_run_leaves_the_kernels_figure() -> None:
    """Red when the case is lost with it, or a ratio is made up."""

    def timer(calls: Sequence[Callable[[], object]]) -> float:
        if calls[0]() == "torch":
            raise RuntimeError("out of memory")
        return 4.0

    line = measure(Task("swiglu", cases_of("swiglu").SMALL[0], 1), make_work(), CEILINGS, timer, 50_000_000)
    assert (line["us"], line["torch_us"], line["times_faster"]) == (4.0, None, None)
    assert line["torch_us_missing"] == "RuntimeError: out of memory"
    assert kernel_table([line]).split("\n")[1].split()[-6:-4] == ["-", "2000"]


@pytest.mark.parametrize(
    ("num_bytes", "cold", "expected"),
    [(8e6, 0, 1), (8e6, 8_000_000, 25), (1e3, 1_000, 64), (1e9, 1_000_000, 1), (1e6, 400_000_000, 14)],
    ids=["nothing cold", "four times the cache", "at most 64", "larger than the cache", "no more memory than there is"],
)
def test_copies(num_bytes: float, cold: int, expected: int) -> None:
    """Red when warm tensors are rotated, or a large table is copied until the memory is full."""
    assert copies(make_work(num_bytes, cold=cold), 50_000_000) == expected


def off(case: Any, device: str, dtype: torch.dtype) -> None:
    if case == cases_of("swiglu").SMALL[1]:
        torch.testing.assert_close(torch.tensor(1.0), torch.tensor(2.0))


def test_a_case_that_is_off_is_named_and_the_others_go_on(
    interpreted: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Red when an error ends the run, is swallowed, or leaves the exit code 0."""
    checked: list[str] = []
    monkeypatch.setattr(test_swiglu, "compare", off)
    monkeypatch.setattr(test_rms_norm, "compare", lambda case, device, dtype: checked.append(case.name))
    file = tmp_path / "kernels.jsonl"
    arguments = ["--op", "swiglu", "rms_norm", "--small", "--device", "cpu", "--json", str(file)]
    assert not Bench(parse(arguments)).run()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    (named,) = [line for line in lines if line.get("kind") == "off"]
    assert (named["op"], named["case"]) == ("swiglu", cases_of("swiglu").SMALL[1].name)
    assert "float32: AssertionError: Scalars are not close" in named["error"]
    assert checked == [case.name for case in cases_of("rms_norm").SMALL]
    assert Bench(parse(["--op", "rms_norm", "--small", "--device", "cpu"])).run()


def test_an_operation_that_says_no_work_is_named_and_the_others_go_on(
    interpreted: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red when it ends the run, or is passed over in silence."""
    monkeypatch.setattr(test_swiglu, "compare", lambda case, device, dtype: None)
    monkeypatch.delattr("ttsbench.kernels.rms_norm.cases.work")
    assert not Bench(parse(["--op", "rms_norm", "swiglu", "--small", "--device", "cpu"])).run()
    printed = capsys.readouterr().out
    assert "cases.py has no work" in printed
    assert f'"cases": {len(cases_of("swiglu").SMALL)}, "off": 0' in printed


def test_an_earlier_check_stands_for_its_own_cases_and_source_alone(
    interpreted: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Red when cases that were off are timed after all, or another check is taken for this one's."""
    monkeypatch.setattr(test_swiglu, "compare", off)
    file = tmp_path / "checks.jsonl"
    arguments = ["--op", "swiglu", "--small", "--device", "cpu"]
    Bench(parse([*arguments, "--json", str(file)])).run()
    monkeypatch.setattr(test_swiglu, "compare", lambda case, device, dtype: pytest.fail("checked again"))
    second = Bench(parse([*arguments, "--checked", str(file)]))
    assert not second.run()
    assert [task.case for task in second.failed] == [cases_of("swiglu").SMALL[1]]
    with pytest.raises(SystemExit, match="one whole check"):
        Bench(parse(["--op", "rms_norm", *arguments[2:], "--checked", str(file)])).run()
    monkeypatch.setattr(bench_kernels, "machine", lambda root: {"source_sha256": "another"})
    with pytest.raises(SystemExit, match="of this source"):
        Bench(parse([*arguments, "--checked", str(file)])).run()


def test_memory_that_nobody_wrote_is_nan_in_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a check runs outside the poison: a kernel that leaves an element out may then find the right value."""
    happened = []

    @contextmanager
    def poison() -> Iterator[None]:
        happened.append("poisoned")
        yield
        happened.append("clean")

    monkeypatch.setattr(bench_kernels, "poisoned_memory", poison)
    monkeypatch.setattr(test_swiglu, "compare", lambda case, device, dtype: happened.append("compared"))
    assert not bench_kernels.check(Task("swiglu", cases_of("swiglu").SMALL[0], None), "cpu", ["float32"])
    assert happened == ["poisoned", "compared", "clean"]


def test_the_timed_half_and_its_table(interpreted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that says 10 us of all. Red when a case is lost on the way to the table, or one that cannot run
    ends the others.
    """
    monkeypatch.setattr(Ceilings, "measured", lambda device: CEILINGS)
    monkeypatch.setattr(bench_kernels, "graph_us", lambda calls: 10.0 if calls[0]() is not None else 20.0)
    monkeypatch.setattr(bench_kernels, "cache_bytes", lambda: 50_000_000)
    bench = Bench(parse(["--op", "swiglu", "--device", "cpu"]))
    impossible = replace(cases_of("swiglu").SMALL[0], rows=-1)
    tasks = [*plan(["swiglu"], [1, 8], "1.7b", small=False), Task("swiglu", impossible, 1)]
    lines = bench.measure([task for task in tasks if task.rows is not None])
    assert [line["kind"] for line in lines] == ["kernel"] * 4 + ["off"]
    assert bench.failed == {tasks[-1]}
    text = kernel_table(lines[:-1]).splitlines()
    assert len(text) == 5
    assert text[1].split()[:2] == ["swiglu", "1"]


def test_cases_past_the_deadline_are_said_to_be_skipped(interpreted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ceilings, "measured", lambda device: CEILINGS)
    monkeypatch.setattr(bench_kernels, "cache_bytes", lambda: 50_000_000)
    bench = Bench(parse(["--op", "swiglu", "--device", "cpu", "--seconds", "1e-9"]))
    lines = bench.measure([task for task in plan(["swiglu"], [1], "1.7b", small=False) if task.rows is not None])
    assert [line["kind"] for line in lines] == ["skipped"] * 2


def test_without_a_gpu_triton_has_to_interpret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(SystemExit):
        parse(["--device", "cpu"])
    assert "TRITON_INTERPRET=1" in capsys.readouterr().err
