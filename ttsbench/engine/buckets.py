"""Sizes for which graphs are captured. A step runs in the smallest bucket that holds it, padded with inert rows.

Talker and code predictor multiply in tiles of 64 rows from 17 rows on, and a tile that is not full takes longer than
one that is: a step of 32 rows without its codec 3,791 us, of 64 rows 3,433 (docs/measurements.md). So they are padded
to whole tiles, while the codec, whose time goes with its rows, has buckets of its own, none of them larger than theirs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

TILE = 64
"""Rows of a product's tile."""
FEW = 16
"""Rows up to which products have smaller tiles."""


@dataclass(frozen=True)
class Buckets:
    """The sizes of one runner, each list sorted."""

    frames: tuple[int, ...]
    """Rows of talker and code predictor in a decode step, and of the frame of a mixed one."""
    codec: tuple[int, ...]
    """Rows of the codec."""
    tokens: tuple[int, ...]
    """Packed rows of a step that has prompt rows."""

    @classmethod
    def of(cls, capacity: int, budget: int) -> Buckets:
        """For steps of up to `capacity` sequences and `budget` packed rows."""
        return cls(frame_buckets(capacity), codec_buckets(capacity), token_buckets(budget))

    @property
    def largest(self) -> Buckets:
        """The last of each alone."""
        return Buckets(self.frames[-1:], self.codec[-1:], self.tokens[-1:])


def frame_buckets(capacity: int) -> tuple[int, ...]:
    """1 and on to `capacity`, or the whole tiles that hold it."""
    few = [size for size in (1, 2, 4, 8, FEW) if size < capacity]
    return (*few, *range(TILE, capacity + TILE, TILE)) if capacity > FEW else (*few, capacity)


def codec_buckets(capacity: int) -> tuple[int, ...]:
    """1 to `capacity`: every size costs a graph, a padded row costs time."""
    sizes = {1, 2, 4, *range(8, capacity, 8), capacity}
    return tuple(size for size in sorted(sizes) if size <= capacity)


def token_buckets(budget: int) -> tuple[int, ...]:
    """Whole tiles first, 1 to `budget`; above, most are the library's products, which take any size."""
    sizes = {TILE, *range(96, min(budget, 256), 32), *range(256, budget, 64), budget}
    return tuple(size for size in sorted(sizes) if size <= budget)


def bucket(buckets: Sequence[int], rows: int) -> int:
    """The smallest bucket that holds `rows`. Raises ValueError beyond the largest."""
    at = bisect_left(buckets, rows)
    if at == len(buckets):
        raise ValueError(f"a step of {rows} rows fits no bucket: the largest is {buckets[-1]}")
    return buckets[at]
