"""Named shapes of the depthwise convolution with its norm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.dwconv_norm import dwconv_norm
from ttsbench.kernels.dwconv_norm.packed import DepthwiseNorm
from ttsbench.kernels.dwconv_norm.reference import dwconv_norm as plain
from ttsbench.kernels.work import LARGE, Sizes, Work, nbytes, over


@dataclass(frozen=True)
class Case:
    """`rows` streams of `length` positions."""

    name: str
    rows: int
    length: int
    channels: int


SMALL = (Case("one position", 1, 1, 16), Case("odd width", 3, 4, 37), Case("longer than the tail", 2, 9, 64))


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """Both ConvNeXt blocks."""
    return [Case(f"released, {rows} rows of {n}", rows, n, 1024) for n in (2, 4)]


RELEASED = over((1, 32, 128), released)


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype) -> tuple[Tensor, DepthwiseNorm]:
    noise = torch.Generator().manual_seed(0)
    wide = torch.promote_types(dtype, torch.float32)

    def normal(*shape: int, kind: torch.dtype = dtype) -> Tensor:
        return torch.randn(shape, generator=noise).to(device, kind)

    bias, gain, shift = (normal(case.channels, kind=wide) for _ in range(3))
    weights = DepthwiseNorm(normal(7, case.channels, kind=wide), bias, gain, shift, eps=1e-6)
    return normal(6 + case.length, case.rows, case.channels), weights


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    x, weights = inputs(case, device, dtype)
    used = weights.weight, weights.bias, weights.gain, weights.shift
    outputs = case.length * case.rows * case.channels
    moved = nbytes(x, *used) + outputs * x.element_size()
    return Work(dwconv_norm, plain, (x, weights), used, moved, 2.0 * len(weights.weight) * outputs)
