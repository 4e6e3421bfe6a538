"""Which tile of the product a program computes: one table, ordered by how few bytes a tile moves per multiplication.

The codec's products have all shapes: at one stream 4 rows against 22 MB of weights, at 128 streams 245,760 rows against
130 kB. The largest tile that still gives most multiprocessors work is taken; where even the smallest leaves them idle,
the terms of the sum are split among programs.

Shapes: M rows (streams x positions), K terms (taps x channels), N columns.
"""

from __future__ import annotations

from dataclasses import dataclass

MULTIPROCESSORS = 132
"""Of an H100 or H200; on another device the choice may not be the best one, and is still right."""

ENOUGH = 112
"""Tiles that keep a GPU busy."""


@dataclass(frozen=True)
class Tile:
    """A program owns `rows` x (`columns` + `extra`) outputs and takes `terms` of each sum at a time.

    Every size is a power of two. `extra` columns (0: none) make up widths of 3 * 2^i, as all layers here have.
    """

    rows: int
    columns: int
    extra: int
    terms: int
    warps: int
    stages: int
    split: int = 1
    vector: int = 0
    """Inputs per load; 4 (8 bytes) go through the L1 cache, which then serves the other taps; 0 takes the most."""

    @property
    def width(self) -> int:
        return self.columns + self.extra

    def count(self, rows: int, width: int) -> int:
        return -(-rows // self.rows) * -(-width // self.width)


LARGE = (
    Tile(128, 128, 64, 64, warps=8, stages=3),
    Tile(128, 64, 32, 64, warps=4, stages=3),
    Tile(64, 64, 32, 64, warps=4, stages=4),
    Tile(64, 64, 0, 64, warps=4, stages=4),
    Tile(32, 64, 0, 64, warps=4, stages=5),
)
SMALL = Tile(16, 64, 0, 64, warps=4, stages=5)
"""Also the start of what is split."""

FLOAT32 = Tile(64, 32, 0, 32, warps=4, stages=2)
"""For exact float32, which has no matrix unit: it is for comparisons, and the tiles above would not fit."""

MOST_SPLITS = 16
FEWEST_STEPS = 4
"""Of one program's sum: below it, filling the pipeline is most of the time."""


def choose(rows: int, terms: int, width: int, float32: bool = False) -> Tile:
    """The tile for M = `rows`, K = `terms`, N = `width`."""
    if float32:
        return FLOAT32
    for tile in LARGE:
        fits = rows > tile.rows // 2 and width % tile.width == 0
        if fits and tile.count(rows, width) >= ENOUGH:
            return short(tile, terms)
    return divided(Tile(32, 64, 0, 64, warps=4, stages=5) if rows > 16 else SMALL, rows, terms, width)


def short(tile: Tile, terms: int) -> Tile:
    """Steps of 32 terms where 64 would leave half of the last one empty and there are few."""
    if terms % 64 == 32 and terms < 128:
        return Tile(tile.rows, tile.columns, tile.extra, 32, tile.warps, tile.stages)
    return tile


def divided(tile: Tile, rows: int, terms: int, width: int) -> Tile:
    """`tile` with its sums split so that there are about as many programs as multiprocessors."""
    steps = -(-terms // tile.terms)
    split = min(MULTIPROCESSORS // tile.count(rows, width), steps // FEWEST_STEPS, MOST_SPLITS)
    return Tile(tile.rows, tile.columns, tile.extra, tile.terms, tile.warps, tile.stages, max(split, 1))
