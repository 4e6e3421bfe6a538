"""Kernels whose result for a row does not depend on how many rows there are.

What a row's sums depend on beside the row is how they are cut: the terms that are added at a time, and among how many
programs they are split. Tiles choose that by the number of rows, because few rows are fastest with other cuts than
many. Within `batch_invariant()` they choose as if there were always `ROWS`, and no library's product, which chooses by
itself, takes part. A row's place in its tile does not matter: a matrix unit adds up every element of its output alone,
and all in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ROWS = 64
"""The fastest for a full batch; fewer rows pay most."""

_fixed: ContextVar[bool] = ContextVar("fixed", default=False)


@contextmanager
def batch_invariant() -> Iterator[None]:
    """Kernels launched, or captured, inside are cut the same way for any number of rows."""
    before = _fixed.set(True)
    try:
        yield
    finally:
        _fixed.reset(before)


def is_fixed() -> bool:
    """Whether kernels are launched within `batch_invariant()`."""
    return _fixed.get()


def planned(rows: int) -> int:
    """Rows, or streams, for which an operation on `rows` of them chooses how to cut its sums."""
    return ROWS if is_fixed() else rows
