"""Every kernel of every operation: is it right, how fast is it, how far from the floor, and what would torch take?

    python -m scripts.bench_kernels [--op attention ...] [--rows 1 8 32 64 128] [--shape 1.7b] [--json kernels.jsonl]

First all cases are compared with their reference, as the operation's own test does it, in float32 and bfloat16; memory
that nobody wrote holds NaN. A case that is off is named with its error, is not timed, and makes the exit code 1; the
others go on. Then the cases of the released shapes are timed in bfloat16, but for those that the operation leaves to
the library, which are said to be skipped: microseconds of one call, the median over replays of a CUDA graph that makes
it some times over. Weights and states are other ones from call to call, together
four times as large as the L2 cache (or 64 sets of them), as in an engine that reads gigabytes between two uses. Beside
it stand torch's own operations, timed alike, and the floor: the larger of the bytes over the bandwidth and the
operations over the matrix rate, both measured first.

Without a GPU, or with --check-only, it stops after the checks; there Triton must be told to interpret:

    TRITON_INTERPRET=1 python -m scripts.bench_kernels --small

What an operation has to offer to be in here: `ttsbench/kernels/work.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import torch

from scripts.bench_ceilings import Ceilings, timed
from scripts.bench_machine import machine
from scripts.bench_table import kernel_table
from tests.poison import poisoned_memory
from ttsbench import kernels
from ttsbench.kernels.work import RELEASED, Cases, Work

ROOT = Path(__file__).resolve().parents[1]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LEAST_CALLS = 8
"""In a graph: what a replay itself costs is spread over them."""
REPLAYS = 15
SPREAD = 4
"""Times the L2 cache that all copies read together: little of one is still there when its turn comes again."""
COPIES = 64
"""At most: what is still smaller than the L2 cache then stays there, and is a matter of a microsecond either way."""
COPIED_BYTES = 6e9
"""At most, for tables of which a case reads little."""

LIBRARYS = "the operation leaves this case to the library"
"""Why it is not timed; its kernel is checked all the same."""

Timer = Callable[[Sequence[Callable[[], object]]], float]
"""Microseconds of one of the calls, made in turn."""


@dataclass(frozen=True)
class Task:
    """A case to check, and to time if it is a released one."""

    op: str
    case: Any
    rows: int | None
    """Sequences of the step; None for an odd case, which is not timed."""

    @property
    def about(self) -> dict[str, Any]:
        return {"op": self.op, "case": self.case.name, "rows": self.rows}


def operations() -> list[str]:
    """Every folder of the kernels room that has cases."""
    found = (module.name for module in pkgutil.iter_modules(kernels.__path__) if module.ispkg)
    return sorted(name for name in found if (Path(kernels.__path__[0]) / name / "cases.py").exists())


def cases_of(op: str) -> Cases:
    """The operation's `cases.py`."""
    return cast(Cases, import_module(f"ttsbench.kernels.{op}.cases"))


def lacking(op: str) -> list[str]:
    """What an operation has not of what `ttsbench/kernels/work.py` asks for."""
    return [name for name in ("SMALL", "released", "work") if not hasattr(cases_of(op), name)]


def plan(ops: Iterable[str], rows: Sequence[int], shape: str, small: bool) -> list[Task]:
    """Odd cases first, then the released ones by size; a case that two sizes share once."""
    tasks: dict[tuple[str, Any], Task] = {}
    for op in ops:
        cases = cases_of(op)
        for case in cases.SMALL:
            tasks[op, case] = Task(op, case, None)
        for count in () if small else sorted(rows):
            for case in cases.released(count, RELEASED[shape]):
                tasks[op, case] = Task(op, case, count)
    return list(tasks.values())


def check(task: Task, device: str, dtypes: Sequence[str]) -> list[str]:
    """What is wrong with the case, in words, one line per dtype; nothing if all is well."""
    errors = []
    for name in dtypes:
        try:
            compare = import_module(f"tests.kernels.test_{task.op}").compare
            with poisoned_memory():
                compare(task.case, device, DTYPES[name])
        except Exception as error:  # a kernel may fail in any way, and the other cases are to be checked all the same
            words = str(error).splitlines() or [""]
            errors.append(f"{name}: {type(error).__name__}: {words[0]}")
    return errors


def checked(
    tasks: Sequence[Task], device: str, dtypes: Sequence[str], workers: int
) -> Iterator[tuple[Task, list[str]]]:
    """Every task with its errors. So many processes share the work, most of which is compiling; 0 is this one."""
    one = partial(check, device=device, dtypes=dtypes)
    if workers == 0:
        yield from ((task, one(task)) for task in tasks)
        return
    tasks = tasks[::-1]  # large cases take longest, and come last in the plan
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        yield from zip(tasks, pool.map(one, tasks), strict=True)


def graph_us(calls: Sequence[Callable[[], object]]) -> float:
    """Median microseconds of a call over replays of a graph of all `calls`."""
    calls[0]()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return timed(graph.replay, REPLAYS) / len(calls)


def measure(task: Task, work: Work, ceilings: Ceilings, timer: Timer, l2_bytes: int) -> dict[str, Any]:
    """The line of one case."""
    sets = work.copies(copies(work, l2_bytes))
    turns = sets * ceil(LEAST_CALLS / len(sets))
    us = timer([partial(work.kernel, *given) for given in turns])
    try:
        torch_us, missing = timer([partial(work.plain, *given) for given in turns]), None
    except Exception as error:  # such as too little memory for what torch needs: the kernel's own figure stays
        torch_us, missing = None, f"{type(error).__name__}: {error}"
    floor_us = ceilings.floor_us(work.num_bytes, work.flops)
    return {
        "kind": "kernel",
        **task.about,
        "us": round(us, 2),
        "torch_us": None if torch_us is None else round(torch_us, 2),
        "torch_us_missing": missing,
        "times_faster": None if torch_us is None else round(torch_us / us, 2),
        "bytes": round(work.num_bytes),
        "flops": round(work.flops),
        "gb_per_s": round(work.num_bytes / us / 1e3, 1),
        "tflop_per_s": round(work.flops / us / 1e6, 2),
        "floor_us": round(floor_us, 3),
        "share_of_floor": round(floor_us / us, 4),
        "copies": len(sets),
    }


def copies(work: Work, l2_bytes: int) -> int:
    """Sets of cold tensors to take in turn."""
    held = sum(tensor.nbytes for tensor in work.cold if tensor is not None)
    if held == 0:
        return 1
    return max(1, min(COPIES, ceil(SPREAD * l2_bytes / work.num_bytes), int(COPIED_BYTES / held)))


def off_before(file: Path, tasks: Sequence[Task], source_sha256: str) -> set[Task]:
    """What an earlier run of the same source found off among these cases. Raises SystemExit where it is another's."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    sources = [line["source_sha256"] for line in lines if "source_sha256" in line]
    counts = [line["cases"] for line in lines if line.get("kind") == "checks"]
    if (sources, counts) != ([source_sha256], [len(tasks)]):
        raise SystemExit(f"{file} does not hold one whole check of these {len(tasks)} cases of this source")
    off = {(line["op"], line["case"], line["rows"]) for line in lines if line.get("kind") == "off" and "case" in line}
    return {task for task in tasks if tuple(task.about.values()) in off}


def complete(lines: Iterable[dict[str, Any]]) -> bool:
    """Whether every case of a kernel of ours was timed on both sides."""
    return all(line.get("torch_us") is not None for line in lines if line.get("why") != LIBRARYS)


def cache_bytes() -> int:
    """Size of the GPU's L2 cache."""
    return int(torch.cuda.get_device_properties(0).L2_cache_size)


class Bench:
    """One run of this script."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.deadline = time.monotonic() + (options.seconds or float("inf"))
        self.failed: set[Task] = set()
        self.left_out = False

    def run(self) -> bool:
        """Whether every case is right, and none was left untimed on either side."""
        options = self.options
        self.say(where := machine(ROOT))
        tasks = plan(self.described(options.op or operations()), options.rows, options.shape, options.small)
        if options.checked:
            self.failed |= off_before(options.checked, tasks, where["source_sha256"])
        else:
            self.check(tasks)
        if self.device == "cpu" or options.check_only:
            return not self.failed and not self.left_out
        lines = self.measure([task for task in tasks if task.rows is not None and task not in self.failed])
        print(kernel_table([line for line in lines if "us" in line]))
        return not self.failed and not self.left_out and complete(lines)

    def described(self, ops: Sequence[str]) -> list[str]:
        """Those that say their cases and work; the others are named."""
        for op in ops:
            if missing := lacking(op):
                self.left_out = True
                self.say({"kind": "off", "op": op, "error": f"cases.py has no {', '.join(missing)}"})
        return [op for op in ops if not lacking(op)]

    def check(self, tasks: Sequence[Task]) -> None:
        began = time.monotonic()
        for task, errors in checked(tasks, self.device, self.options.dtype, self.options.workers):
            for error in errors:
                self.failed.add(task)
                self.say({"kind": "off", **task.about, "error": error})
        spent = round(time.monotonic() - began, 1)
        self.say({"kind": "checks", "cases": len(tasks), "off": len(self.failed), "seconds": spent})

    def measure(self, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        ceilings = Ceilings.measured(torch.device(self.device))
        torch.cuda.empty_cache()
        l2_bytes = cache_bytes()
        self.say({"kind": "ceilings", **vars(ceilings), "l2_bytes": l2_bytes})
        lines = []
        for task in tasks:
            if time.monotonic() > self.deadline:
                line = {"kind": "skipped", **task.about, "why": "--seconds are spent"}
            else:
                line = self.one(task, ceilings, l2_bytes)
            self.say(line)
            lines.append(line)
        return lines

    @torch.inference_mode()
    def one(self, task: Task, ceilings: Ceilings, l2_bytes: int) -> dict[str, Any]:
        try:
            work = cases_of(task.op).work(task.case, self.device, torch.bfloat16)
            if work.is_librarys:
                return {"kind": "skipped", **task.about, "why": LIBRARYS}
            return measure(task, work, ceilings, graph_us, l2_bytes)
        except Exception as error:  # as in `check`
            self.failed.add(task)
            return {"kind": "off", **task.about, "error": f"{type(error).__name__}: {error}"}

    def say(self, line: dict[str, Any]) -> None:
        text = json.dumps(line)
        print(text, flush=True)
        if self.options.json:
            with self.options.json.open("a", encoding="utf-8") as file:
                file.write(text + "\n")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", nargs="+", choices=operations(), help="by default all")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32, 64, 128], help="sequences of a step")
    parser.add_argument("--shape", choices=sorted(RELEASED), default="1.7b")
    parser.add_argument("--small", action="store_true", help="the odd little cases alone")
    parser.add_argument("--check-only", action="store_true", help="time nothing")
    parser.add_argument("--checked", type=Path, help="the --json file of a --check-only run: nothing is checked again")
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, help="of the checks; by default both, on a CPU float32")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="by default cuda where there is one")
    parser.add_argument("--workers", type=int, help="processes that check; by default one per core, on a CPU none")
    parser.add_argument("--seconds", type=float, help="then the cases still to be timed are skipped, and said so")
    parser.add_argument("--json", type=Path, help="append the lines to this file too")
    options = parser.parse_args(arguments)
    on_gpu = options.device == "cuda" or (options.device is None and torch.cuda.is_available())
    if options.dtype is None:
        options.dtype = list(DTYPES) if on_gpu else ["float32"]  # the interpreter cannot multiply in bfloat16
    if options.workers is None:
        options.workers = min(16, os.cpu_count() or 1) if on_gpu else 0
    if not on_gpu and os.environ.get("TRITON_INTERPRET") != "1":
        parser.error("without a GPU kernels run in Triton's interpreter: set TRITON_INTERPRET=1")
    return options


def main() -> int:
    return 0 if Bench(parse(sys.argv[1:])).run() else 1


if __name__ == "__main__":
    sys.exit(main())
