"""Times tiles for every product of a codec frame on a GPU: what its table is made of.

    python -m scripts.tune_codec --rows 128 1 32 8 64 --seconds 70 [--json FILE]

Each tile is checked against the reference before it is timed; one that fails or does not fit is reported as such. A
time is the median of replays of a CUDA graph that runs the kernel some times over, as in the engine; inputs stay in the
L2 cache where they fit. Kernels are compiled beforehand by several processes, into Triton's cache on disk.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from ttsbench.kernels.causal_conv.cases import Case, Inputs, inputs, released
from ttsbench.kernels.causal_conv.reference import causal_conv as reference
from ttsbench.kernels.causal_conv.tiles import Tile, choose
from ttsbench.kernels.causal_conv.triton import causal_conv

REPEATS = 10
"""Launches in a graph."""

TOLERANCE = 3e-2
"""Of the largest output, as in the kernels' tests."""

LARGE = (
    (128, 128, 64, 8), (128, 128, 0, 4), (128, 128, 0, 8), (256, 128, 0, 8), (128, 64, 32, 4), (128, 64, 32, 8),
    (256, 64, 32, 8), (64, 128, 64, 4),
)  # fmt: skip
MIDDLE = ((64, 64, 32, 4), (64, 128, 0, 4), (64, 64, 0, 4), (128, 64, 0, 4))
SMALL = ((32, 64, 0, 4), (32, 32, 0, 4), (16, 64, 0, 4), (16, 128, 0, 4), (16, 32, 0, 2))
"""(rows, columns, extra columns, warps)."""


def made(case: Case) -> Inputs:
    return inputs(case, "cuda", torch.bfloat16)


def table(case: Case) -> Tile:
    return choose(case.rows * case.length, case.taps, case.channels, case.width)


def candidates(case: Case) -> Iterator[Tile]:
    """The table's tile, then others that suit this product; sums split where there are few tiles."""
    yield table(case)
    rows, terms = case.rows * case.length, case.taps * case.channels
    for size, columns, extra, warps in (*LARGE, *MIDDLE, *SMALL):
        if size > max(16, 2 * rows) or case.width % (columns + extra):
            continue
        tiles = -(-rows // size) * (case.width // (columns + extra))
        few, many = tiles < 130, tiles > 1500
        if (few and size >= 128 and rows > size) or (many and size * (columns + extra) < 64 * 96):
            continue
        for step in (64, 128) if few and size < 64 and case.channels % 128 == 0 else (32, 64):
            if case.channels % step or (step == 32 and case.channels % 64 == 0):
                continue
            for stages in (3, 4) if size >= 64 else (4, 6):
                if stages * step * (size + columns + extra) * 2 > 200 * 1024:
                    continue
                tile = Tile(size, columns, extra, step, warps, stages, 1, blocks=size >= 64)
                yield from _splits(tile, tiles, terms)


def _splits(tile: Tile, tiles: int, terms: int) -> Iterator[Tile]:
    if tiles >= 40:
        yield tile
    for programs in (132, 264, 396):
        split = min(programs // tiles, 16, terms // tile.terms // 3)
        if split > 1 and tiles * split > programs // 2:
            yield replace(tile, split=split)


def microseconds(run: Callable[[], None]) -> float:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            run()
    times = []
    for _ in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / REPEATS)
    return statistics.median(times)


def compile_one(job: tuple[Case, Tile]) -> str | None:
    """In a process of its own, for one stream: the kernel is the same for more."""
    case, tile = job
    try:
        made(replace(case, rows=1)).run(causal_conv, tile=replace(tile, split=min(tile.split, 2)))
        torch.cuda.synchronize()
    except Exception as error:  # what does not fit is no candidate
        return f"{type(error).__name__}: {error}"[:200]
    return None


def compiled_key(case: Case, tile: Tile) -> tuple[object, ...]:
    """Jobs of one key compile the same kernel."""
    flags = (case.plain, case.residual, case.snake, case.gelu, case.phases > 1)
    even = (case.channels % tile.terms == 0, case.width % tile.width == 0)
    return (flags, even, asdict(replace(tile, split=min(tile.split, 2))).values())


def worst(got: Inputs, want: Inputs) -> float:
    """Largest error of the outputs over the largest output; NaN counts as infinite."""
    errors = [0.0]
    for name in ("plain", "active"):
        a, b = getattr(got, name), getattr(want, name)
        if a is not None:
            error = ((a.float() - b.float()).abs().max() / b.float().abs().max()).item()
            errors.append(error if error == error else float("inf"))
    return max(errors)


def measure(case: Case, tiles: list[Tile], deadline: float) -> list[dict[str, Any]]:
    """One line per tile, best first."""
    want = made(case)
    want.run(reference)
    outputs = {name: tensor.clone() for name in ("plain", "active") if (tensor := getattr(want, name)) is not None}
    given = replace(want, **outputs)
    lines = []
    for tile in tiles:
        if time.monotonic() > deadline:
            break
        line: dict[str, Any] = {"case": case.name, "rows": case.rows, "tile": list(asdict(tile).values())}
        for tensor in outputs.values():
            tensor.fill_(torch.nan)
        try:
            given.run(causal_conv, tile=tile)
            line["error"] = round(worst(given, want), 5)
            if line["error"] <= TOLERANCE:
                line["us"] = round(microseconds(lambda tile=tile: given.run(causal_conv, tile=tile)), 2)  # type: ignore[misc]
                line["tflops"] = round(case.flops / line["us"] / 1e6, 1)
        except Exception as error:
            if "illegal" in str(error) or "misaligned" in str(error):
                raise  # the context is lost, and so is every later number
            line["failed"] = f"{type(error).__name__}: {error}"[:120]
        lines.append(line)
    return sorted(lines, key=lambda line: line.get("us", 1e9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[128, 1, 32, 8, 64])
    parser.add_argument("--only", nargs="+", default=[""], help="products whose name contains one of these")
    parser.add_argument("--best", type=int, default=3, help="how many tiles to print")
    parser.add_argument("--seconds", type=float, default=600, help="no tile is begun later")
    parser.add_argument("--processes", type=int, default=14, help="that compile")
    parser.add_argument("--json", type=Path, help="append every line to this file")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool:
        for rows in arguments.rows:
            if time.monotonic() < deadline:
                tune(rows, arguments, pool, deadline)


def tune(rows: int, arguments: argparse.Namespace, pool: ProcessPoolExecutor, deadline: float) -> None:
    """All products of a frame of `rows` streams. Dilation does not change what is best."""
    chosen = [case for case in released(rows) if "d9" not in case.name]
    chosen = [case for case in chosen if any(name in case.name for name in arguments.only)]
    plans = {case: list(dict.fromkeys(candidates(case))) for case in chosen}
    jobs = {str(compiled_key(case, tile)): (case, tile) for case, tiles in plans.items() for tile in tiles}
    failures = [failure for failure in pool.map(compile_one, jobs.values(), chunksize=2) if failure]
    left = round(deadline - time.monotonic(), 1)
    about = {"rows": rows, "tiles": sum(map(len, plans.values())), "kernels": len(jobs), "seconds_left": left}
    print(json.dumps({**about, "failed": len(failures), "first": failures[:3]}), flush=True)
    for case, tiles in plans.items():
        lines = measure(case, tiles, deadline)
        now = next((line for line in lines if line["tile"] == list(asdict(table(case)).values())), None)
        wrong = [line for line in lines if "us" not in line]
        best = [short(line) for line in lines[: arguments.best]]
        summary = {"table": now and short(now), "best": best, "wrong": wrong[:2], "count": len(lines)}
        print(json.dumps({"case": case.name, "rows": case.rows, **summary}), flush=True)
        if arguments.json:
            with arguments.json.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)


def short(line: dict[str, Any]) -> list[Any]:
    return [line.get("us"), line.get("tflops"), *line["tile"]]


if __name__ == "__main__":
    main()
