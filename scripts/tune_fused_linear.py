"""Times tiles for every product of a decode step on a GPU: what the table of `fused_linear/tiles.py` is made of.

    python -m scripts.tune_fused_linear --rows 8 16 32 64 128 [--seconds 60] [--json FILE]

Each product is launched many times over in a CUDA graph, as in the model: dependent on the launch before, with weights
that have left the L2 cache. Beside it stand the library's product alone, without norm, gate or residual sum, and the
tile that is chosen now. A tile is checked against the reference before it is timed. Times are microseconds a launch.
Candidates are compiled by worker processes, which fill Triton's cache on the disk.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.fused_linear import Normed, reference, triton
from ttsbench.kernels.fused_linear.tiles import EARLY_WEIGHTS, SMALL_WEIGHT, EarlyTile, Share, Tile, choose

REPEATS = 7
COLD_BYTES = 120e6
"""Weights that take turns: more than twice the L2 cache."""
TOLERANCE = 2**-6
"""Of the largest output, as in the tests."""
SHARED_BYTES = 76 * 1024, 104 * 1024
"""Of a program: three or two fit into a multiprocessor, of launches that overlap or of the codec."""


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

    def parts(self, rows: int) -> int:
        """In how many parts it gets its rows' squares: those of residual products of 16 or 32 columns a tile."""
        return 0 if self.kind == "residual" else self.width // (16 if rows <= 16 else 32)


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


def candidates(rows: int, product: Product) -> Iterator[Share]:
    """Tiles that give most multiprocessors something to do."""
    for tile in (*early(rows, product), *looped(rows, product)):
        split = tile.split if isinstance(tile, Tile) else 1
        if 48 <= tile.count(rows, product.columns) * split <= 400:
            yield tile


def early(rows: int, product: Product) -> Iterator[Share]:
    """Of 32 rows and more per program, or with shares of more than 64 KB, none has been among the fastest."""
    if rows > 32:
        return
    for columns in (8, 16, 32):
        tile = EarlyTile(8 if rows <= 8 else 16, columns)
        whole = product.width % (tile.terms * tile.slices) == 0
        if whole and columns * product.halves * product.width <= EARLY_WEIGHTS:
            yield tile


def looped(rows: int, product: Product) -> Iterator[Share]:
    """By the memory engine, which has always been faster, with as many stages as fit, and fewer."""
    sizes = (16,) if rows <= 16 else (32, 64) if rows <= 32 else (64,)
    for size, columns, terms in itertools.product(sizes, (16, 32, 64), (64, 128)):
        stage = (size + columns * product.halves) * terms * 2
        if terms == 64 and size < 64:
            continue
        for room in SHARED_BYTES:
            stages = min(room // stage, 8)
            for split in (1, 2) if product.kind == "residual" else (1,):
                if stages >= 3:
                    yield Tile(size, columns, terms, 4, stages, split, blocks=True)


@dataclass(frozen=True)
class Trial:
    """A tile of a product at one number of rows."""

    product: Product
    rows: int
    tile: Share

    @property
    def program(self) -> tuple[Any, ...]:
        """What is compiled once for all that share it."""
        product, tile = self.product, self.tile
        steps = product.width if isinstance(tile, EarlyTile) else 0
        fetched = product.outputs * product.width <= SMALL_WEIGHT
        return product.kind, steps, product.parts(self.rows), self.rows % 16 > 0, fetched, tile


@cache
def inputs(product: Product, rows: int, copies: int) -> tuple[Tensor, list[Tensor], Tensor | None, Tensor, Tensor]:
    """x, weights, squares, residual and norm."""
    noise = torch.Generator("cuda").manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=noise, device="cuda").bfloat16()

    x = normal(rows, product.width)
    squares = None
    if parts := product.parts(rows):
        squares = x.float().view(rows, parts, -1).square().sum(2).T.contiguous()
    weights = [normal(product.outputs, product.width) for _ in range(copies)]
    return x, weights, squares, normal(rows, product.columns), normal(product.columns)


def launch(product: Product, rows: int, tile: Share | None, copies: int, at: int) -> Any:
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
"""Trials of this process after which the GPU no longer answers it."""


def is_right(trial: Trial) -> bool:
    while broken:  # and must not fail what other processes can do
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
            broken.append(trial)
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
    workers = max(1, min(15, os.cpu_count() or 2))
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        answers = [pool.apply_async(is_right, (trial,)) for trial in ordered]
        while time.perf_counter() - start < seconds and not all(answer.ready() for answer in answers):
            time.sleep(0.1)
        right = {trial for trial, answer in zip(ordered, answers, strict=True) if answer.ready() and answer.get()}
    print(json.dumps({"trials": len(trials), "programs": len(first), "right": len(right),
                      "seconds": round(time.perf_counter() - start, 1)}), flush=True)  # fmt: skip
    return right


def report(product: Product, rows: int, tiles: list[Share]) -> list[tuple[float, Share]]:
    """The times of all tiles, the fastest first."""
    copies = copies_of(product)
    own = choose(rows, product.outputs, product.width, product.kind == "gated")
    line: dict[str, Any] = {"product": product.name, "rows": rows}
    line["library"] = round(microseconds(product, partial(library, product, rows, copies)), 2)
    line["chosen"] = round(microseconds(product, partial(launch, product, rows, own, copies)), 2)
    timed = [(microseconds(product, partial(launch, product, rows, tile, copies)), tile) for tile in tiles]
    timed.sort(key=lambda pair: pair[0])
    line["best"] = [[round(us, 2), str(tile)] for us, tile in timed[:4]]
    print(json.dumps(line), flush=True)
    inputs.cache_clear()
    return timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 16, 32, 64, 128])
    parser.add_argument("--products", nargs="+", default=[""], help="parts of their names")
    parser.add_argument("--seconds", type=float, default=40.0, help="for compiling")
    parser.add_argument("--json", type=Path, help="all times, as a list of (product, rows, microseconds, tile)")
    options = parser.parse_args()
    products = [one for one in PRODUCTS if any(part in one.name for part in options.products)]
    tasks = [(product, rows) for rows in options.rows for product in products]
    trials = [Trial(product, rows, tile) for product, rows in tasks for tile in candidates(rows, product)]
    right = compiled(trials, options.seconds)
    found = []
    for product, rows in tasks:
        tiles = [trial.tile for trial in trials if (trial.product, trial.rows) == (product, rows) and trial in right]
        found += [(product.name, rows, us, str(tile)) for us, tile in report(product, rows, tiles)]
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
