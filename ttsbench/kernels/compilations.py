"""Counts compilations of Triton kernels, so that an engine can be shown to compile none after its warm-up."""

from __future__ import annotations

from typing import Any


class CompilationCounter:
    """`count` kernels were compiled, or loaded from Triton's disk cache, in this process since it was made."""

    def __init__(self) -> None:
        from triton import knobs

        self.count = 0
        self._before = knobs.runtime.jit_post_compile_hook
        knobs.runtime.jit_post_compile_hook = self._count

    def _count(self, **about: Any) -> Any:
        self.count += 1
        return self._before(**about) if self._before is not None else None
