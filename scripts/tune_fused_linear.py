"""Times tiles for every product of a decode step on a GPU: what the table of `fused_linear/tiles.py` is made of.

    python -m scripts.tune_fused_linear --rows 8 32 64 128 [--seconds 60] [--json FILE]

A tile is checked against the reference first, then timed where it works: in a CUDA graph of whole layers (products,
attention, head), whose weights take turns as in the model, all other products with the best tiles found so far. Those
whose tiles decide the parts of a row's squares come first, those that read the parts after them. Times are microseconds
of the chain. Candidates are compiled by worker processes, which fill Triton's cache on the disk.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ttsbench.kernels.attention import Heads, KVRows, paged_attention
from ttsbench.kernels.fused_linear import Normed, reference, triton
from ttsbench.kernels.fused_linear.tiles import Tile, choose

HEADS, KV_HEADS, HEAD_WIDTH = 16, 8, 128
REPEATS = 7
TOLERANCE = 2**-6
"""Of the largest output, as in the tests."""

STAGE_BYTES = (96 * 1024, 200 * 1024)
"""Shared memory of a program: two side by side, or one alone."""


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


@dataclass(frozen=True)
class Stack:
    """A transformer by its sizes; `layers` of them are run, so that weights come from memory as in the model."""

    name: str
    width: int
    inner: int
    layers: int
    head: int
    positions: int

    @property
    def products(self) -> tuple[Product, ...]:
        attended = HEADS * HEAD_WIDTH
        return (
            Product("o", self.width, attended, "residual"),
            Product("down", self.width, self.inner, "residual"),
            Product("qkv", (HEADS + 2 * KV_HEADS) * HEAD_WIDTH, self.width, "plain"),
            Product("gate_up", 2 * self.inner, self.width, "gated"),
            Product("head", self.head, self.width, "plain"),
        )


STACKS = (Stack("1024", 1024, 3072, 5, 2048, 8), Stack("2048", 2048, 6144, 8, 3072, 64))


def candidates(rows: int, product: Product) -> Iterator[Tile]:
    """Tiles that give most multiprocessors something to do, with as many stages as fit."""
    for size in (16, 32, 64, 128):
        if size >= 2 * max(rows, 16) or size < min(rows, 64):
            continue
        for columns in (16, 32, 64, 128):
            if size * columns > 128 * 64 * (1 if product.kind == "gated" else 2) or (size >= 64 and columns < 32):
                continue
            for split in (1, 2, 4):
                tiles = Tile(size, columns, 64, 4, 2).count(rows, product.columns)
                if not 60 <= tiles * split <= 270 or split > {"gated": 1, "plain": 2, "residual": 4}[product.kind]:
                    continue
                for terms in (64, 128, 256):
                    yield from _staged(size, columns, terms, split, product)


def _staged(size: int, columns: int, terms: int, split: int, product: Product) -> Iterator[Tile]:
    steps = product.width // terms // split
    if steps < 2 or (terms == 256 and size > 16) or (terms == 64 and size == 16):
        return
    stage = (size + columns * (2 if product.kind == "gated" else 1)) * terms * 2
    seen = set()
    for room in STAGE_BYTES:
        stages = min(room // stage, steps, 6)
        for blocks in (False, True):
            if stages >= 2 and (stages, blocks) not in seen and (blocks or room == STAGE_BYTES[0]):
                seen.add((stages, blocks))
                yield Tile(size, columns, terms, 8 if size == 128 else 4, stages, split, blocks)


@dataclass
class Chain:
    """The layers of a stack at one number of rows."""

    stack: Stack
    rows: int
    tiles: dict[str, Tile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stack, device = self.stack, torch.device("cuda")
        self.stream = torch.cuda.Stream()
        noise = torch.Generator(device).manual_seed(0)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=noise, device=device).bfloat16()

        self.weights = [
            {one.name: normal(one.outputs, one.width) * one.width**-0.5 for one in stack.products}
            for _ in range(stack.layers)
        ]
        self.norm = torch.ones(stack.width, device=device).bfloat16()
        self.x = normal(self.rows, stack.width)
        places = max(16, stack.positions + 16)
        self.kv = normal(stack.layers, 2, self.rows * places, KV_HEADS, HEAD_WIDTH)
        ids = torch.arange(self.rows, device=device)
        size = 16
        tables = (ids[:, None] * (places // size) + torch.arange(places // size, device=device)).int()
        positions = torch.full_like(ids, stack.positions)
        self.where = KVRows(ids, positions, ids * places + stack.positions, tables, size)
        angles = torch.rand(places, HEAD_WIDTH // 2, generator=noise, device=device)
        head_norm = torch.ones(HEADS + KV_HEADS, HEAD_WIDTH, device=device).bfloat16()
        self.heads = Heads(
            HEADS, KV_HEADS, HEAD_WIDTH, 1e-6, head_norm, angles.cos().bfloat16(), angles.sin().bfloat16()
        )
        self.stream.wait_stream(torch.cuda.current_stream())
        for one in stack.products:
            self.tiles.setdefault(one.name, choose(self.rows, one.outputs, one.width, one.kind == "gated"))

    def run(self) -> None:
        normed, residual, tiles = Normed(self.x), self.x, self.tiles
        for layer, weights in enumerate(self.weights):
            qkv = triton.linear(normed, weights["qkv"], tile=tiles["qkv"])
            keys, values = self.kv[layer]
            attended = paged_attention(qkv, self.heads, self.where, keys, values, 1)
            normed, residual = triton.residual_linear(attended, weights["o"], residual, self.norm, 1e-6, tiles["o"])
            gated = triton.gated_linear(normed, weights["gate_up"], tiles["gate_up"])
            normed, residual = triton.residual_linear(gated, weights["down"], residual, self.norm, 1e-6, tiles["down"])
        triton.linear(normed, self.weights[0]["head"], tile=tiles["head"])

    def microseconds(self) -> float:
        """Of the whole chain."""
        with torch.cuda.stream(self.stream):
            self.run()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.run()
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(REPEATS)]
        graph.replay()
        for start, end in events:
            start.record()
            graph.replay()
            end.record()
        torch.cuda.synchronize()
        return statistics.median(1e3 * start.elapsed_time(end) for start, end in events)


@dataclass(frozen=True)
class Trial:
    """A product alone: its launch compiles the tile, its result is compared."""

    product: Product
    rows: int
    tile: Tile
    parts: int


def outcome(trial: Trial) -> tuple[Tensor, Tensor]:
    """What the tile gives and what it should."""
    product, rows, device = trial.product, trial.rows, "cuda"
    noise = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=noise, device=device).bfloat16()

    x, weight = normal(rows, product.width), normal(product.outputs, product.width)
    normed = Normed(x)
    if trial.parts:
        normed = Normed(x, x.float().view(rows, trial.parts, -1).square().sum(2).T.contiguous(), 1e-6)
    plain = normed.finished().float()
    if product.kind == "gated":
        return triton.gated_linear(normed, weight, trial.tile), reference.gated_linear(plain, weight.float())
    if product.kind == "residual":
        residual, norm = normal(rows, product.outputs), normal(product.outputs)
        got = triton.residual_linear(x, weight, residual, norm, 1e-6, trial.tile)[0].finished()
        return got, reference.residual_linear(plain, weight.float(), residual.float(), norm.float(), 1e-6)[0]
    return triton.linear(normed, weight, tile=trial.tile), plain @ weight.float().T


def is_right(trial: Trial) -> bool:
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        got, want = outcome(trial)
        return float((got.float() - want).abs().max() / want.abs().max()) <= TOLERANCE
    except Exception as error:  # a tile that does not compile or fit is no candidate, and says so
        print(json.dumps({"failed": str(trial), "error": str(error)[:200]}), flush=True)
        return False


def parts_of(chain: Chain, product: Product) -> int:
    """In how many parts this product gets its rows' squares."""
    source = {"qkv": "down", "head": "down", "gate_up": "o"}.get(product.name)
    return -(-chain.stack.width // chain.tiles[source].columns) if source else 0


def tune(chains: list[Chain], names: tuple[str, ...], pool: Any, deadline: float) -> None:
    """Best tiles of the named products, one product after the other."""
    trials = []
    for chain in chains:
        for product in chain.stack.products:
            own = candidates(chain.rows, product) if product.name in names else iter(())
            trials += [Trial(product, chain.rows, tile, parts_of(chain, product)) for tile in own]
            if product.name not in names and product.kind != "residual":
                for columns in (16, 32, 64, 128):  # what reads a residual product, for each width its tile may have
                    trials.append(Trial(product, chain.rows, chain.tiles[product.name], chain.stack.width // columns))
    start = time.perf_counter()
    right = dict.fromkeys(trials, False)
    answers = pool.imap(is_right, trials, chunksize=1)
    for trial in trials:
        try:
            right[trial] = answers.next(timeout=max(0.0, start + 0.6 * (deadline - start) - time.perf_counter()))
        except multiprocessing.TimeoutError:
            break  # what is not compiled by now is not tried
    print(json.dumps({"compiled": len(trials), "right": sum(right.values()),
                      "seconds": round(time.perf_counter() - start, 1)}), flush=True)  # fmt: skip
    for name in names:
        for chain in chains:
            product = next(one for one in chain.stack.products if one.name == name)
            tiles = [t.tile for t in trials if (t.product, t.rows) == (product, chain.rows) and right[t]]
            report(chain, product, tiles, deadline)


def report(chain: Chain, product: Product, tiles: list[Tile], deadline: float) -> None:
    """Time each of the `tiles` and leave the best one in place."""
    before = chain.tiles[product.name]
    timed = [(chain.microseconds(), before)]
    for tile in dict.fromkeys(tiles):
        if time.perf_counter() > deadline:
            break
        chain.tiles[product.name] = tile
        timed.append((chain.microseconds(), tile))
    timed.sort(key=lambda pair: pair[0])
    chain.tiles[product.name] = timed[0][1]
    best: dict[tuple[bool, int], list[Any]] = {}
    for us, tile in timed:
        best.setdefault((tile.blocks, tile.split), [round(us, 1), str(tile)])
    print(json.dumps({"stack": chain.stack.name, "rows": chain.rows, "product": product.name, "tried": len(timed),
                      "best": [round(timed[0][0], 1), str(timed[0][1])],
                      "by_kind": {f"blocks={k[0]} split={k[1]}": v[0] for k, v in best.items()},
                      "next": [[round(us, 1), str(tile)] for us, tile in timed[1:4]],
                      "worst": round(timed[-1][0], 1)}), flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 32, 64, 128])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path, help="the best tiles, as a list of (rows, outputs, width, gated, tile)")
    options = parser.parse_args()
    deadline = time.perf_counter() + options.seconds
    chains = [Chain(stack, rows) for rows in sorted(options.rows, reverse=True) for stack in STACKS]
    with multiprocessing.get_context("spawn").Pool(max(1, min(14, (os.cpu_count() or 2) - 1))) as pool:
        tune(chains, ("o", "down"), pool, deadline)
        tune(chains, ("gate_up", "qkv", "head"), pool, deadline)
    found = []
    for chain in chains:
        print(json.dumps({"stack": chain.stack.name, "rows": chain.rows, "us": round(chain.microseconds(), 1)}))
        for one in chain.stack.products:
            key = [chain.rows, one.outputs, one.width, one.kind == "gated"]
            found.append([*key, vars(chain.tiles[one.name])])
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
