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
from dataclasses import dataclass, replace
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


def candidates(rows: int, product: Product) -> Iterator[Tile]:
    for tile in (*looped(rows, product), *early(rows, product)):
        few = rows <= 16 or product.kind != "residual"
        if 48 <= tile.count(rows, product.columns) * tile.split <= 400 and (few or tile.columns == 32 or tile.early):
            yield tile


def looped(rows: int, product: Product) -> Iterator[Tile]:
    """Tiles whose terms come in a pipelined loop."""
    if rows <= 16:
        shapes = [(16, 16, 128), (16, 32, 128), (16, 64, 128)] if product.name.startswith("talker") else []
    else:
        shapes = [(64, 16, 128), (64, 32, 128), (64, 64, 128), (64, 32, 64), (64, 64, 64)]
    if rows == 32:
        shapes.append((32, 64, 128))
    if rows == 128:
        shapes += [(128, 32, 64), (128, 64, 64)]
    for size, columns, terms in shapes:
        stage = (size + columns * product.halves) * terms * 2
        for room in (76 * 1024, SHARED_BYTES) if size == 64 else (SHARED_BYTES,):
            stages = room // stage
            if stages < 3:
                continue
            for split in (1, 2) if product.kind == "residual" else (1,):
                for fetch in (False, True) if product.kind == "residual" else (product.width == 1024,):
                    yield Tile(size, columns, terms, 8 if size == 128 else 4, min(stages, 8), split, True, fetch)


def early(rows: int, product: Product) -> Iterator[Tile]:
    """Tiles that hold weights before they wait."""
    if rows > 32 or (rows == 32 and product.name.startswith("talker")):
        return
    size, width, kind = min(rows, 16), product.width, product.kind
    for columns in {"plain": (16, 32), "residual": (8, 16), "gated": (8, 16)}[kind]:
        if kind == "gated" and width == 1024 and columns == 8 or width == 2048 and columns == 32:
            continue
        for warps, slices in ((4, 4), (4, 8), (8, 8), (4, 16), (8, 16)):
            span = slices * 128
            steps = width // span
            if steps * span != width or (slices == 16 and not (width == 6144 or (width, size, warps) == (2048, 8, 4))):
                continue
            step = columns * product.halves * span * 2
            room = min(SHARED_BYTES - size * span * 2, 128 * 128 * warps)
            hold = min(steps, room // step)
            if hold < min(steps, 2) or (hold < steps and (width, kind) in ((2048, "plain"), (2048, "residual"))):
                continue
            ahead = max(1, min(steps, 96 // (size * span // (64 * warps))))
            yield Tile(size, columns, 128, warps, ahead, early=hold, slices=slices)


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
        return product.kind, steps, product.parts(self.rows), self.rows % 16 > 0, tile


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


def compiled(trials: list[Trial], pool: ProcessPoolExecutor, seconds: float) -> set[Trial]:
    """Those that give the right result; what is not compiled in time is not among them."""
    first = {trial.program: trial for trial in reversed(trials)}
    ordered = [*reversed(first.values()), *(trial for trial in trials if first[trial.program] is not trial)]
    start = time.perf_counter()
    answers = {pool.submit(is_right, trial): trial for trial in ordered}
    done, late = wait(answers, seconds)
    for answer in late:
        answer.cancel()
    right = {answers[answer] for answer in done if answer.result()}
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
    pool = ProcessPoolExecutor(max(1, min(15, os.cpu_count() or 2)), multiprocessing.get_context("spawn"))
    right = compiled(trials, pool, 0.62 * options.seconds)
    found, best = [], {}
    for product, rows in tasks:
        tiles = [trial.tile for trial in trials if (trial.product, trial.rows) == (product, rows) and trial in right]
        timed = report(product, rows, tiles)
        best[product, rows] = timed[0] if timed else None
        found += [(product.name, rows, us, vars(tile)) for us, tile in timed]
    trials = [Trial(product, rows, replace(pair[1], late=True)) for (product, rows), pair in best.items() if pair]
    for trial in compiled(trials, pool, max(1.0, deadline - time.perf_counter() - 2)):
        launched = partial(launch, trial.product, trial.rows, trial.tile, copies_of(trial.product))
        us = microseconds(trial.product, launched)
        print(json.dumps({"late": trial.product.name, "rows": trial.rows, "us": round(us, 2),
                          "early": round(best[trial.product, trial.rows][0], 2)}), flush=True)  # fmt: skip
    for process in list(pool._processes.values()):
        process.kill()
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
