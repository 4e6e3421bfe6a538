"""Named shapes of a residual unit: small ones for the interpreter, the released codec's narrow ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.causal_conv.packed import TICKETS, ConvWeights, SnakeWeights


@dataclass(frozen=True)
class Case:
    """`rows` streams of `length` positions."""

    name: str
    rows: int
    length: int
    channels: int
    dilation: int = 1
    plain: bool = True
    taps: int = 7

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.length * (self.taps + 1) * self.channels**2


@dataclass(frozen=True)
class Inputs:
    """Arguments of the operation, in its order."""

    x: Tensor
    dilated: ConvWeights
    between: SnakeWeights
    pointwise: ConvWeights
    residual: Tensor
    activation: SnakeWeights
    plain: Tensor | None
    active: Tensor

    def run(self, operation: Callable[..., None], **options: object) -> None:
        operation(*vars(self).values(), **options)


SMALL = (
    Case("a tail longer than the frame", 2, 4, 16, dilation=3, plain=False),
    Case("two blocks of channels", 3, 7, 48),
    Case("one block", 2, 9, 32, dilation=2),
    Case("a ragged last tile", 1, 37, 24 * 2, dilation=9),
)
"""Small enough for the interpreter."""


def released(rows: int) -> list[Case]:
    """The narrow units of one frame of `rows` streams through the released decoder."""
    return [
        Case(f"unit {channels} d{d}", rows, length, channels, d, plain=d < 9)
        for length, channels in ((640, 192), (1920, 96))
        for d in (1, 9)
    ]


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype, seed: int = 0) -> Inputs:
    """Random inputs of size 1 and outputs full of NaN."""
    noise = torch.Generator().manual_seed(seed)
    wide = torch.promote_types(dtype, torch.float32)

    def normal(*shape: int, scale: float = 1.0, kind: torch.dtype = dtype) -> Tensor:
        return (torch.randn(shape, generator=noise) * scale).to(device, kind)

    def conv(taps: int, dilation: int) -> ConvWeights:
        terms = taps * case.channels
        weight, bias = normal(terms, case.channels, scale=terms**-0.5), normal(case.channels, kind=wide)
        return ConvWeights(weight, bias, torch.zeros(TICKETS, dtype=torch.int32, device=device), taps, dilation)

    def snake() -> SnakeWeights:
        return SnakeWeights(normal(case.channels, kind=wide).exp(), normal(case.channels, kind=wide).exp())

    shape = (case.length, case.rows, case.channels)
    dilated = conv(case.taps, case.dilation)
    empty = torch.full(shape, torch.nan, device=device, dtype=dtype)
    return Inputs(
        normal(dilated.tail + case.length, case.rows, case.channels),
        dilated, snake(), conv(1, 1), normal(*shape), snake(), empty.clone() if case.plain else None, empty,
    )  # fmt: skip
