"""Candidate tiles for the products of `kernels/fused_linear`, and how to have all compiled before one is timed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from ttsbench.kernels.fused_linear.cases import Case, Operations, inputs
from ttsbench.kernels.fused_linear.tiles import MULTIPROCESSORS, Line, Tile, bucket

SHARED_BYTES = 200 * 1024
"""Of 227 that a program may have: the end of a tile needs some too."""
MOST_PROGRAMS = 3 * MULTIPROCESSORS
FEWEST_PROGRAMS = MULTIPROCESSORS // 3

SIZES = {
    16: ((16, 16), (32, 16), (64, 16), (128, 16)),
    32: ((16, 32), (32, 32), (64, 32), (128, 32)),
    64: ((32, 64), (64, 64), (128, 64), (64, 32)),
    128: ((32, 128), (64, 128), (128, 128), (64, 64), (128, 64)),
    512: ((64, 128), (128, 128), (128, 64), (64, 256), (128, 256)),
}
"""(weight rows, rows) of a tile by bucket."""


def operations() -> Operations:
    from ttsbench.kernels.fused_linear import triton

    return Operations(triton.linear, triton.linear_add, triton.norm_linear)


def candidates(case: Case) -> list[Tile | Line]:
    """What may be best for a case."""
    return list(_lines(case) if case.rows == 1 else _tiles(case))


def _lines(case: Case) -> Iterator[Line]:
    for outputs in (1, 2, 4, 8):
        for terms in (512, 1024, 2048):
            for warps in (1, 2, 4, 8):
                held = outputs * terms // (32 * warps)
                if 8 <= held <= 64 and terms <= case.terms and (outputs > 1 or case.kind != "swiglu"):
                    yield Line(outputs, terms, warps)


def _tiles(case: Case) -> Iterator[Tile]:
    for outputs, rows in SIZES[bucket(case.rows)]:
        warps = 8 if outputs * rows >= 128 * 128 else 4
        for terms in (64, 128, 256):
            for stages in (3, 4, 6):
                tile = Tile(outputs, rows, terms, warps, stages)
                if tile.shared_bytes <= SHARED_BYTES:
                    yield from _splits(tile, case)


def _splits(tile: Tile, case: Case) -> Iterator[Tile]:
    """The sums whole, or split evenly among up to some programs per multiprocessor."""
    for split in (1, 2, 3, 4, 6, 8):
        made = replace(tile, split=split)
        programs = made.count(case.rows, case.weight_rows) * split
        deep = made.stages <= max(made.steps(case.terms), 3)
        few = programs < FEWEST_PROGRAMS and case.rows <= 128
        if made.even(case.terms) and deep and not few and (split == 1 or programs <= MOST_PROGRAMS):
            yield made


def compile_all(work: Sequence[tuple[Case, Tile | Line]], overlaps: Sequence[bool]) -> int:
    """Fill Triton's cache by all cores at once; how many kernels there are."""
    kernels = {(case.kind, case.squares, tile, overlap): case.rows for case, tile in work for overlap in overlaps}
    tasks = [(*key, rows) for key, rows in kernels.items()]
    with multiprocessing.get_context("spawn").Pool(min(len(os.sched_getaffinity(0)), 16)) as pool:
        pool.starmap(_compile, tasks, chunksize=4)
    return len(tasks)


def _compile(kind: str, squares: int, tile: Tile | Line, overlap: bool, rows: int) -> None:
    """Run the kernel once on the smallest product that it is the kernel of."""
    terms = tile.terms * (tile.split if isinstance(tile, Tile) else 1)
    case = Case("smallest", kind, rows, terms, 256, squares)  # type: ignore[arg-type]
    inputs(case, "cuda", torch.bfloat16).run(operations(), tile=tile, overlap=overlap)
