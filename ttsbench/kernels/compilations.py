"""Counts compilations of kernels, so that an engine can show that it compiles none after its warm-up."""

from __future__ import annotations

from functools import cache
from typing import Any


def compilations() -> int:
    """Kernels compiled in this process since the first call, those that Triton loads from its disk cache among them."""
    return _counter().count


def compiled() -> None:
    """For a compiler other than Triton's: count one more."""
    _counter().count += 1


class _Counter:
    """Stands in front of whatever hook there was."""

    def __init__(self) -> None:
        from triton import knobs

        self.count = 0
        self._before = knobs.runtime.jit_post_compile_hook
        knobs.runtime.jit_post_compile_hook = self._count

    def _count(self, **about: Any) -> Any:
        self.count += 1
        return self._before(**about) if self._before is not None else None


@cache
def _counter() -> _Counter:
    return _Counter()
