"""For which units one kernel is better than two, and in which tiles.

A program owns all channels of some positions, since the second product needs them all.

Shapes: M rows (streams x positions), C channels.
"""

from __future__ import annotations

from dataclasses import replace

from ttsbench.kernels.causal_conv.tiles import Tile

TILES = {
    192: Tile(64, 128, 64, 64, warps=4, stages=3, blocks=True),
    96: Tile(128, 128, 0, 32, warps=8, stages=4, blocks=True),
}
"""Of the widths whose accumulators fit a multiprocessor's registers. Blocks of 64 and 32 channels would do for 96, but
gave wrong sums on an H200 (Triton 3.6), which no other pair did.
"""

FUSED = {192}
"""Widths that are faster so."""

FEWEST = 64 * 132
"""Rows: with fewer, some multiprocessors have nothing to do, and others read all weights for little."""


def fused(rows: int, channels: int) -> bool:
    """Whether M = `rows` of C = `channels` are one kernel's work."""
    return channels in FUSED and rows >= FEWEST


def choose(channels: int, float32: bool = False) -> Tile:
    """The tile for C = `channels`."""
    tile = TILES[channels]
    return replace(tile, rows=16, terms=16, warps=4, stages=2) if float32 else tile
