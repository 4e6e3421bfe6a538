"""Uninitialised memory that shows: for tests, and for the checks of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import torch


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Memory from torch.empty and its kin holds NaN, or the largest integer: forgetting to write it cannot pass.

    torch's own switch for this works only under deterministic algorithms, which would hide the very differences that
    the determinism tests look for.
    """
    makers = [(torch, "empty"), (torch, "empty_like"), (torch, "empty_strided"), (torch.Tensor, "new_empty")]
    patches = [mock.patch.object(owner, name, _poisoned(getattr(owner, name))) for owner, name in makers]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in reversed(patches):
            patch.stop()


def _poisoned(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def poisoned(*args: object, **kwargs: object) -> torch.Tensor:
        memory = make(*args, **kwargs)
        with torch.no_grad():
            if memory.is_floating_point() or memory.is_complex():
                memory.fill_(float("nan"))
            elif memory.dtype is not torch.bool:
                memory.fill_(torch.iinfo(memory.dtype).max)
        return memory

    return poisoned
