"""For which units one kernel is better than two, and in which tiles.

A program owns all channels of some positions, since the second product needs them all.

Shapes: M rows (streams x positions), C channels.
"""

from __future__ import annotations

from ttsbench.kernels.causal_conv.tiles import Tile

WIDEST = 192
"""Two accumulators of a wider tile do not fit a multiprocessor's registers."""

FEWEST = 64
"""Positions of a tile: with fewer, each program reads all weights for little."""


def columns(channels: int) -> tuple[int, int] | None:
    """`channels` as a power of two, at least 16, and half of it or nothing."""
    power = 1 << channels.bit_length() - 1
    extra = channels - power
    return (power, extra) if power >= 16 and (extra == 0 or (extra == power // 2 and extra >= 16)) else None


def fused(rows: int, channels: int) -> bool:
    """Whether M = `rows` of C = `channels` are one kernel's work."""
    return channels <= WIDEST and columns(channels) is not None and rows >= FEWEST


def choose(rows: int, channels: int, float32: bool = False) -> Tile:
    """The tile for M = `rows`, C = `channels`."""
    split = columns(channels)
    assert split is not None
    step = 32 if channels % 64 else 64
    if float32:
        return Tile(16, *split, 16, warps=4, stages=2)
    if channels > 96:
        return Tile(64, *split, step, warps=4, stages=3)
    return Tile(128 if rows >= 128 * 132 else 64, *split, step, warps=4, stages=4)
