"""Times tiles for every product of a decode step on a GPU: what the table of `fused_linear/tiles.py` is made of.

    python -m scripts.tune_fused_linear --rows 8 16 32 64 128 [--seconds 60] [--json FILE]

Each product is launched many times over in a CUDA graph, as in the model: dependent on the launch before, with weights
that have left the L2 cache. Beside it stand the library's product alone, without norm, gate or residual sum, and the tile
of the table. A tile is checked against the reference before it is timed. Times are microseconds a launch. Candidates
are compiled by worker processes, which fill Triton's cache on the disk.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.fused_linear import Normed, reference, triton
from ttsbench.kernels.fused_linear.tiles import Tile, choose

REPEATS = 7
COLD_BYTES = 120e6
"""Weights that take turns: more than twice the L2 cache."""
TOLERANCE = 2**-6
"""Of the largest output, as in the tests."""
SHARED_BYTES = 104 * 1024
"""Of a program: two launches that overlap and a block of the codec fit into a multiprocessor."""


@dataclass(frozen=True)
class Product:
    """`outputs` counts both halves of a gated product."""

    name: str
    outputs: int
    width: int
    kind: str

    @property
    def columns(self) -> int:
        return self.outputs // 2 if self.kind == "gated" else self.outputs

    @property
    def halves(self) -> int:
        return 2 if self.kind == "gated" else 1

    @property
    def parts(self) -> int:
        """In how many parts it gets its rows' squares: those of a residual product of 16 columns a tile."""
        return 0 if self.kind == "residual" else self.width // 16


PRODUCTS = (
    Product("predictor qkv", 4096, 1024, "plain"),
    Product("predictor o", 1024, 2048, "residual"),
    Product("predictor gate and up", 6144, 1024, "gated"),
    Product("predictor down", 1024, 3072, "residual"),
    Product("predictor head", 2048, 1024, "plain"),
    Product("talker qkv", 4096, 2048, "plain"),
    Product("talker o", 2048, 2048, "residual"),
    Product("talker gate and up", 12288, 2048, "gated"),
    Product("talker down", 2048, 6144, "residual"),
)


def candidates(rows: int, product: Product) -> Iterator[Tile]:
    yield from looped(rows, product)
    yield from early(rows, product)


def looped(rows: int, product: Product) -> Iterator[Tile]:
    """Tiles whose terms come in a pipelined loop."""
    for size in (16, 32, 64, 128):
        if size >= 2 * max(rows, 16) or size < min(rows, 64):
            continue
        for columns in (16, 32, 64):
            if size == 128 and columns == 16:
                continue
            for split in (1, 2) if product.kind == "residual" else (1,):
                if not 60 <= Tile(size, columns, 64, 4, 2).count(rows, product.columns) * split <= 300:
                    continue
                for terms in (64, 128, 256):
                    stage = (size + columns * product.halves) * terms * 2
                    stages = min(SHARED_BYTES // stage, product.width // terms // split, 6)
                    if stages < 3 or (terms == 64 and size <= 32) or (terms == 256 and columns > 16):
                        continue
                    for blocks in (False, True):
                        for fetch in (False, True) if blocks else (False,):
                            warps = 8 if size == 128 else 4
                            yield Tile(size, columns, terms, warps, stages, split, blocks, fetch)


def early(rows: int, product: Product) -> Iterator[Tile]:
    """Tiles that hold weights before they wait."""
    for size in (8, 16, 32, 64, 128):
        if size >= 2 * max(rows, 8) or size < min(rows, 32):
            continue
        for columns in (8, 16, 32, 64):
            count = Tile(size, columns, 64, 4, 2).count(rows, product.columns)
            if not 60 <= count <= 800 or (size < 64 and columns * size * product.halves > 1024):
                continue
            if size >= 64 and (columns < 16 or columns * size * product.halves > 4096 * 2):
                continue
            for warps, terms in ((4, 64), (4, 128)) if size == 64 else ((8, 64),) if size == 128 else ((4, 128), (8, 128), (8, 64)):
                if size < 64 and (terms == 64) != (size == 32):
                    continue
                slices = warps if size < 64 else 1
                span = slices * terms
                steps = product.width // span
                step = columns * product.halves * span * 2
                hold = min(steps, (100 * 1024 - size * span * 2) // step)
                registers = size * span // (64 * warps)
                if hold < 1:
                    continue
                for distance in {min(steps, 128 // registers), min(steps, 64 // registers)}:
                    yield Tile(size, columns, terms, warps, distance, early=hold, slices=slices)


@dataclass(frozen=True)
class Trial:
    product: Product
    rows: int
    tile: Tile

    @property
    def program(self) -> tuple[Any, ...]:
        """What is compiled once for all that share it."""
        product, tile = self.product, self.tile
        steps = product.width // (tile.terms * tile.slices) if tile.early else 0
        return product.kind, steps, product.parts, tile


@cache
def inputs(product: Product, rows: int, copies: int) -> tuple[Tensor, list[Tensor], Tensor | None, Tensor, Tensor]:
    """x, weights, squares, residual and norm."""
    noise = torch.Generator("cuda").manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=noise, device="cuda").bfloat16()

    x = normal(rows, product.width)
    squares = None
    if product.parts:
        squares = x.float().view(rows, product.parts, -1).square().sum(2).T.contiguous()
    weights = [normal(product.outputs, product.width) for _ in range(copies)]
    return x, weights, squares, normal(rows, product.columns), normal(product.columns)


def launch(product: Product, rows: int, tile: Tile | None, copies: int, at: int) -> Any:
    x, weights, squares, residual, norm = inputs(product, rows, copies)
    if product.kind == "residual":
        return triton.residual_linear(x, weights[at], residual, norm, 1e-6, tile)
    normed = Normed(x, squares, 1e-6)
    if product.kind == "gated":
        return triton.gated_linear(normed, weights[at], tile)
    return triton.linear(normed, weights[at], tile=tile)


def library(product: Product, rows: int, copies: int, at: int) -> Any:
    x, weights, *_ = inputs(product, rows, copies)
    return F.linear(x, weights[at])


broken: list[Trial] = []


def is_right(trial: Trial) -> bool:
    while broken:
        time.sleep(1.0)
    torch.backends.cuda.matmul.allow_tf32 = False
    product, rows = trial.product, trial.rows
    try:
        x, (weight,), squares, residual, norm = (one for one in inputs(product, rows, 1))
        got = launch(product, rows, trial.tile, 1, 0)
        plain = Normed(x.float(), squares, 1e-6).finished()
        if product.kind == "residual":
            got = got[0].finished()
            want = reference.residual_linear(plain, weight.float(), residual.float(), norm.float(), 1e-6)[0]
        elif product.kind == "gated":
            want = reference.gated_linear(plain, weight.float())
        else:
            want = plain @ weight.float().T
        error = float((got.float() - want).abs().max() / want.abs().max())
        if error > TOLERANCE:
            print(json.dumps({"wrong": str(trial), "error": error}), flush=True)
        return error <= TOLERANCE
    except Exception as error:  # a tile that does not compile or fit is no candidate, and says so
        print(json.dumps({"failed": str(trial), "error": str(error)[:200]}), flush=True)
        if "CUDA error" in str(error):
            broken.append(trial)  # the process is of no more use, and must not fail what others could do
        return False


def microseconds(product: Product, launched: Callable[[int], Any]) -> float:
    """A launch, in a chain of them."""
    copies = copies_of(product)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        launched(0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for at in range(copies):
            launched(at)
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(REPEATS)]
    graph.replay()
    for start, end in events:
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(1e3 * start.elapsed_time(end) for start, end in events) / copies


def copies_of(product: Product) -> int:
    return max(12, int(COLD_BYTES / (2 * product.outputs * product.width)))


def compiled(trials: list[Trial], seconds: float) -> set[Trial]:
    """Those that give the right result; what is not compiled in time is not among them."""
    first = {trial.program: trial for trial in reversed(trials)}
    ordered = [*reversed(first.values()), *(trial for trial in trials if first[trial.program] is not trial)]
    start = time.perf_counter()
    pool = ProcessPoolExecutor(max(1, min(15, os.cpu_count() or 2)), multiprocessing.get_context("spawn"))
    answers = {pool.submit(is_right, trial): trial for trial in ordered}
    done, _ = wait(answers, seconds)
    right = {answers[answer] for answer in done if answer.result()}
    for process in list(pool._processes.values()):
        process.kill()
    print(json.dumps({"trials": len(trials), "programs": len(first), "right": len(right),
                      "seconds": round(time.perf_counter() - start, 1)}), flush=True)  # fmt: skip
    return right


def report(product: Product, rows: int, tiles: list[Tile]) -> list[tuple[float, Tile]]:
    """Times of the table's tile, then all others, the fastest first."""
    copies = copies_of(product)
    line: dict[str, Any] = {"product": product.name, "rows": rows}
    line["library"] = round(microseconds(product, partial(library, product, rows, copies)), 2)
    own = choose(rows, product.outputs, product.width, product.kind == "gated")
    line["table"] = round(microseconds(product, partial(launch, product, rows, own, copies)), 2)
    timed = [(microseconds(product, partial(launch, product, rows, tile, copies)), tile) for tile in tiles]
    timed.sort(key=lambda pair: pair[0])
    kinds: dict[str, list[Any]] = {}
    for us, tile in timed:
        name = f"early{tile.slices > 1}" if tile.early else f"loop blocks={tile.blocks} fetch={tile.fetch}"
        kinds.setdefault(name, [round(us, 2), short(tile)])
    best = [[round(us, 2), short(tile)] for us, tile in timed[:6]]
    print(json.dumps({**line, "tried": len(timed), "best": best, "kinds": kinds}), flush=True)
    inputs.cache_clear()
    return timed


def short(tile: Tile) -> str:
    return ",".join(str(int(value)) for value in vars(tile).values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 16, 32, 64, 128])
    parser.add_argument("--products", nargs="+", default=[""], help="parts of their names")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path, help="all times, as a list of (product, rows, microseconds, tile)")
    parser.add_argument("--count", action="store_true")
    options = parser.parse_args()
    deadline = time.perf_counter() + options.seconds
    products = [one for one in PRODUCTS if any(part in one.name for part in options.products)]
    tasks = [(product, rows) for rows in options.rows for product in products]
    trials = [Trial(product, rows, tile) for product, rows in tasks for tile in candidates(rows, product)]
    trials = list(dict.fromkeys(trials))
    if options.count:
        print(len(trials), len({trial.program for trial in trials}))
        return
    right = compiled(trials, 0.7 * options.seconds)
    found = []
    for product, rows in tasks:
        if time.perf_counter() > deadline:
            break
        tiles = [trial.tile for trial in trials if (trial.product, trial.rows) == (product, rows) and trial in right]
        found += [(product.name, rows, us, vars(tile)) for us, tile in report(product, rows, tiles)]
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
