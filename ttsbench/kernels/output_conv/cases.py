"""Named shapes of the convolution to PCM."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.output_conv import output_conv
from ttsbench.kernels.output_conv.reference import output_conv as plain
from ttsbench.kernels.work import LARGE, Sizes, Work, nbytes, over


@dataclass(frozen=True)
class Case:
    """`rows` streams of `length` positions."""

    name: str
    rows: int
    length: int
    channels: int


SMALL = (Case("one position", 1, 1, 16), Case("odd width, two blocks", 3, 75, 19))


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    return [Case(f"released, {rows} rows", rows, 1920, 96)]


RELEASED = over((1, 32, 128), released)


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """x, weight, bias, of which some samples reach the clamp."""
    noise = torch.Generator().manual_seed(0)
    wide = torch.promote_types(dtype, torch.float32)

    def normal(*shape: int, kind: torch.dtype = dtype) -> Tensor:
        return torch.randn(shape, generator=noise).to(device, kind)

    weight = normal(7, case.channels, kind=wide) * (0.6 * (7 * case.channels) ** -0.5)
    return normal(6 + case.length, case.rows, case.channels), weight, normal(1, kind=wide) * 0.1


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    x, weight, bias = inputs(case, device, dtype)
    pcm = case.rows * case.length
    moved = nbytes(x, weight) + pcm * weight.element_size()
    return Work(output_conv, plain, (x, weight, bias), (weight,), moved, 2.0 * pcm * weight.numel())
