"""Times every tile for every product of a codec frame on a GPU: what the table of `causal_conv/tiles.py` is made of.

    python scripts/tune_causal_conv.py --rows 1 8 32 128

Per product: the table's tile and the best ones, in microseconds and TFLOP/s. A time is the median of replays of a CUDA
graph that runs the kernel some times over, as in the engine; inputs stay in the L2 cache where they fit.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator

import torch

from ttsbench.kernels.causal_conv.cases import Case, Inputs, inputs, released
from ttsbench.kernels.causal_conv.tiles import Tile, choose
from ttsbench.kernels.causal_conv.triton import causal_conv

REPEATS = 10
"""Launches in a graph."""

SHARED_BYTES = 227 * 1024


def candidates(case: Case) -> Iterator[Tile]:
    """Tiles that fit this product, their sums split where there are few."""
    rows, terms = case.rows * case.length, case.taps * case.channels
    for size in (16, 32, 64, 128, 256):
        if size > max(16, 2 * rows):
            continue
        for columns, extra in ((32, 0), (64, 0), (64, 32), (128, 0), (128, 64), (256, 0)):
            if columns + extra > 1.4 * case.width or size * (columns + extra) > 256 * 192:
                continue
            for step in (32, 64, 128):
                for stages in (3, 4, 5):
                    shared = stages * step * (size + columns + extra) * 2
                    warps = 8 if size * (columns + extra) > 128 * 96 else 4
                    if shared <= SHARED_BYTES and step <= max(terms, 32):
                        yield from _splits(Tile(size, columns, extra, step, warps, stages), rows, terms, case.width)


def _splits(tile: Tile, rows: int, terms: int, width: int) -> Iterator[Tile]:
    yield tile
    for split in (2, 3, 4, 7, 8, 12, 14, 16):
        if tile.count(rows, width) * split <= 300 and terms // tile.terms >= 3 * split:
            yield Tile(tile.rows, tile.columns, tile.extra, tile.terms, tile.warps, tile.stages, split)


def microseconds(given: Inputs, tile: Tile) -> float:
    given.run(causal_conv, tile=tile)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            given.run(causal_conv, tile=tile)
    times = []
    for _ in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / REPEATS)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 128])
    parser.add_argument("--only", default="", help="products whose name contains this")
    parser.add_argument("--best", type=int, default=3, help="how many tiles to print")
    parser.add_argument("--table", action="store_true", help="time the table's tiles alone")
    arguments = parser.parse_args()
    for rows in arguments.rows:
        for case in released(rows):
            if arguments.only in case.name:
                report(case, arguments.best, arguments.table)


def report(case: Case, best: int, table_only: bool) -> None:
    given = inputs(case, "cuda", torch.bfloat16)
    chosen = choose(case.rows * case.length, case.taps * case.channels, case.width)
    print(f"{case.name}, {case.rows} rows: table {line(case, chosen, microseconds(given, chosen))}", flush=True)
    if not table_only:
        timed = sorted(((microseconds(given, tile), tile) for tile in candidates(case)), key=lambda pair: pair[0])
        for time, tile in timed[:best]:
            print(f"    {line(case, tile, time)}", flush=True)


def line(case: Case, tile: Tile, time: float) -> str:
    columns = f"{tile.columns}+{tile.extra}" if tile.extra else f"{tile.columns}"
    shape = f"{tile.rows} x {columns} x {tile.terms}, {tile.warps} warps, {tile.stages} stages, split {tile.split}"
    return f"{time:8.1f} us  {case.flops / time / 1e6:6.1f} TFLOP/s  {shape}"


if __name__ == "__main__":
    main()
