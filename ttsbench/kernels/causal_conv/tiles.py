"""Which tile of the product a program computes.

The codec's products have all shapes: at one stream 4 rows against 22 MB of weights, at 128 streams 245,760 rows against
130 kB. The largest tile that still gives most multiprocessors work is taken; where even the smallest leaves them idle,
the terms of the sum are split among programs. What is called fastest was so on an H200: whole sums for 128 streams,
split ones for one.

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
FEW = (
    Tile(32, 128, 0, 64, warps=4, stages=4),
    Tile(32, 64, 0, 64, warps=4, stages=4),
    Tile(16, 128, 0, 64, warps=4, stages=4),
    Tile(16, 64, 0, 64, warps=4, stages=4),
)
"""Of what is split, up to 32 rows; up to 16 the last two."""

SOME = (LARGE[3], LARGE[2], FEW[1], FEW[3])
"""Of what is split, above."""

FLOAT32 = Tile(64, 32, 0, 32, warps=4, stages=2)
"""For exact float32, which has no matrix unit: it is for comparisons, and the tiles above would not fit."""

MOST_SPLITS = 8
"""Beyond it, adding the parts costs more than shorter sums save."""

FEWEST_STEPS = 4
"""Of one program's sum: below it, filling the pipeline is most of the time. The smallest tiles can do with one less."""

LONG_SUM = 2048
"""Terms from which threads that move operands take 128 at a time, of 128 columns where these suffice: more is on its
way at once."""


def choose(rows: int, taps: int, channels: int, width: int, float32: bool = False, blocks: bool = True) -> Tile:
    """The tile for M = `rows`, K = `taps` * `channels`, N = `width`; `blocks`: whether they can be moved."""
    if float32:
        return FLOAT32
    for tile in LARGE:
        fits = rows > tile.rows // 2 and width % tile.width == 0
        if tile is LARGE[-1] and taps * channels >= LONG_SUM:
            break  # 32 rows reuse too little of a long sum's weight: 256 of 7 * 1024 took 80 us, 512 in split tiles 32
        if fits and tile.count(rows, width) >= ENOUGH:
            if width % SQUARE.width == 0 and tile is LARGE[0] and tile.count(rows, width) >= MANY:
                tile = SQUARE
            return fitted(tile, rows, taps, channels, width, blocks)
    return divided(rows, taps, channels, width, blocks)


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


def divided(rows: int, taps: int, channels: int, width: int, blocks: bool) -> Tile:
    """The tile and the split of its sums that keep most multiprocessors busy with one program each.

    A second program for each was slower in every long sum measured: there are more parts to add.
    """
    tiles = SOME if rows > 32 else FEW if rows > 16 else FEW[2:]
    wide = taps * channels >= LONG_SUM
    candidates = [split_up(tile, rows, taps, channels, width) for tile in tiles if wide or tile.columns < 128]

    def busy(tile: Tile) -> int:
        programs = tile.count(rows, width) * tile.split
        even = not tile.extra or width % tile.width == 0
        return programs if even and programs <= MULTIPROCESSORS else 0

    best = max(candidates, key=busy)  # the first of equals
    return replace(best, blocks=best.blocks and blocks)


def split_up(tile: Tile, rows: int, taps: int, channels: int, width: int) -> Tile:
    """`tile` with a step that suits the sum, and as many programs for it as find a multiprocessor."""
    terms = taps * channels
    if channels % 64 == 32 and channels < 128:
        tile = replace(tile, terms=32)
    elif not tile.blocks and terms >= LONG_SUM and channels % 128 == 0:
        tile = replace(tile, terms=128)
    steps = -(-terms // tile.terms)
    fewest = FEWEST_STEPS - 1 if tile.rows == 16 else FEWEST_STEPS
    split = min(MULTIPROCESSORS // tile.count(rows, width), steps // fewest, MOST_SPLITS)
    return replace(tile, split=max(split, 1))
