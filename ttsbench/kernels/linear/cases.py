"""Shapes of matrix-vector products: toys whose widths are no powers of two, and those of a decode step with one row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Case:
    """One product of `outputs` x `width`."""

    name: str
    outputs: int
    width: int
    bias: bool = False


SMALL = (
    Case("one output, one term", 1, 1),
    Case("toy, odd outputs", 7, 24, bias=True),
    Case("a term past a block", 5, 1025),
)
RELEASED = (
    Case("predictor qkv", 4096, 1024),
    Case("predictor gate and up", 6144, 1024),
    Case("predictor down", 1024, 3072),
    Case("projection", 1024, 2048, bias=True),
    Case("talker gate and up", 12288, 2048),
    Case("talker down", 2048, 6144),
)


def inputs(case: Case, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
    """Seeded x [1, D], weight [M, D] and bias [M] or None."""
    noise = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=noise, device=device).to(dtype)

    return normal(1, case.width), normal(case.outputs, case.width), normal(case.outputs) if case.bias else None
