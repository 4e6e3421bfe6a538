"""Sizes for which graphs are captured. A step runs in the smallest bucket that holds it, padded with inert rows.

Talker, code predictor and codec take the same row buckets, so no part of a step can meet a size that another lacks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def row_buckets(capacity: int) -> tuple[int, ...]:
    """Rows of a decode step, 1..capacity: every size costs a graph, a padded row costs time."""
    sizes = {1, 2, 4, *range(8, capacity, 8), capacity}
    return tuple(size for size in sorted(sizes) if size <= capacity)


def token_buckets(budget: int) -> tuple[int, ...]:
    """Packed rows of a step that has prompt rows, 1..budget."""
    sizes = {32, *range(64, min(budget, 256), 32), *range(256, budget, 64), budget}
    return tuple(size for size in sorted(sizes) if size <= budget)


def bucket(buckets: Sequence[int], rows: int) -> int:
    """The smallest bucket that holds `rows`. Raises ValueError beyond the largest."""
    at = bisect_left(buckets, rows)
    if at == len(buckets):
        raise ValueError(f"a step of {rows} rows fits no bucket: the largest is {buckets[-1]}")
    return buckets[at]
