"""Which tile of the product a program computes.

The codec's products have all shapes: at one stream 4 rows against 22 MB of weights, at 128 streams 245,760 rows against
130 kB. The largest tile that still gives most multiprocessors work is taken; where even the smallest leaves them idle,
the terms of the sum are split among programs. What is called fastest was so on an H200, for 128 streams.

Shapes: M rows (streams x positions), K terms (taps x channels), N columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MULTIPROCESSORS = 132
"""Of an H100 or H200; on another device the choice may not be the best one, and is still right."""

ENOUGH = 112
"""Tiles that keep a GPU busy."""

MANY = 4 * MULTIPROCESSORS
"""Tiles of which a last, half empty round is a small part: then the square one is fastest."""

LONG = 48
"""Steps of a sum that is worth splitting although there are `ENOUGH` tiles, when they leave half of the room idle."""


@dataclass(frozen=True)
class Tile:
    """A program owns `rows` x (`columns` + `extra`) outputs and takes `terms` of each sum at a time.

    Every size is a power of two. `extra` columns (0: none) make up widths of 3 * 2^i, as all layers here have.
    `blocks`: operands are moved by the memory engine (TMA) rather than by the threads; that takes 64 rows or more.
    """

    rows: int
    columns: int
    extra: int
    terms: int
    warps: int
    stages: int
    split: int = 1
    blocks: bool = False

    @property
    def width(self) -> int:
        return self.columns + self.extra

    def count(self, rows: int, width: int) -> int:
        return -(-rows // self.rows) * -(-width // self.width)


SQUARE = Tile(128, 128, 0, 64, warps=4, stages=3, blocks=True)
LARGE = (
    Tile(64, 128, 64, 64, warps=4, stages=3, blocks=True),
    Tile(128, 64, 32, 64, warps=4, stages=3, blocks=True),
    Tile(64, 64, 32, 64, warps=4, stages=4, blocks=True),
    Tile(64, 64, 0, 64, warps=4, stages=4, blocks=True),
    Tile(32, 64, 0, 64, warps=4, stages=5),
)
SMALL = Tile(16, 64, 0, 64, warps=4, stages=5)
"""Also the start of what is split."""

FLOAT32 = Tile(64, 32, 0, 32, warps=4, stages=2)
"""For exact float32, which has no matrix unit: it is for comparisons, and the tiles above would not fit."""

MOST_SPLITS = 16
FEWEST_STEPS = 4
"""Of one program's sum: below it, filling the pipeline is most of the time."""


def choose(rows: int, taps: int, channels: int, width: int, float32: bool = False, blocks: bool = True) -> Tile:
    """The tile for M = `rows`, K = `taps` * `channels`, N = `width`; `blocks`: whether they can be moved."""
    if float32:
        return FLOAT32
    terms = taps * channels
    for tile in LARGE:
        fits = rows > tile.rows // 2 and width % tile.width == 0
        if fits and tile.count(rows, width) >= ENOUGH:
            if width % SQUARE.width == 0 and tile is LARGE[0] and tile.count(rows, width) >= MANY:
                tile = SQUARE
            return fitted(tile, rows, taps, channels, width, blocks)
    tile = SMALL if rows <= 16 else LARGE[-1] if rows <= 32 else replace(LARGE[-2], blocks=blocks)
    return divided(tile, rows, terms, channels, width)


def fitted(tile: Tile, rows: int, taps: int, channels: int, width: int, blocks: bool) -> Tile:
    """`tile` with a step, a split and a mover that suit the product."""
    if channels % 64 == 32 and channels < 128:
        tile = replace(tile, terms=32, stages=4)  # a step of 64 would be half empty, or lie in two taps
        if taps == 1:
            tile = replace(tile, rows=64)  # with so few steps it is all reading and writing, which many tiles overlap
    count = tile.count(rows, width)
    if taps * channels // tile.terms >= LONG and count < MULTIPROCESSORS:
        tile = replace(tile, split=2)
    return replace(tile, blocks=tile.blocks and blocks)


def divided(tile: Tile, rows: int, terms: int, channels: int, width: int) -> Tile:
    """`tile` with its sums split so that there are about two programs for each multiprocessor."""
    if channels % 64 == 32 and channels < 128:
        tile = replace(tile, terms=32)
    steps = -(-terms // tile.terms)
    split = min(2 * MULTIPROCESSORS // tile.count(rows, width), steps // FEWEST_STEPS, MOST_SPLITS)
    return replace(tile, split=max(split, 1))
