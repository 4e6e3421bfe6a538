"""Named shapes of a residual unit: small ones for the interpreter, the released codec's narrow ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.causal_conv.cases import unfolded
from ttsbench.kernels.causal_conv.packed import TICKETS, ConvWeights, SnakeWeights
from ttsbench.kernels.residual_unit import residual_unit
from ttsbench.kernels.work import LARGE, Sizes, Work, nbytes


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
    tail: Tensor
    slots: Tensor
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


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """The narrow units of one frame of `rows` streams through the released decoder."""
    return [
        Case(f"unit {channels} d{d}", rows, length, channels, d, plain=d < 9)
        for length, channels in ((640, 192), (1920, 96))
        for d in (1, 9)
    ]


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype, seed: int = 0) -> Inputs:
    """Random inputs of size 1 and outputs full of NaN; streams lie in scattered slots."""
    noise = torch.Generator(device).manual_seed(seed)  # on the device: at 128 rows there are 25 million
    wide = torch.promote_types(dtype, torch.float32)

    def normal(*shape: int, scale: float = 1.0, kind: torch.dtype = dtype) -> Tensor:
        return (torch.randn(shape, generator=noise, device=device) * scale).to(kind)

    def conv(taps: int, dilation: int) -> ConvWeights:
        terms = taps * case.channels
        weight, bias = normal(terms, case.channels, scale=terms**-0.5), normal(case.channels, kind=wide)
        return ConvWeights(weight, bias, torch.zeros(TICKETS, dtype=torch.int32, device=device), taps, dilation)

    def snake() -> SnakeWeights:
        return SnakeWeights(normal(case.channels, kind=wide).exp(), normal(case.channels, kind=wide).exp())

    shape = (case.rows, case.length, case.channels)
    dilated = conv(case.taps, case.dilation)
    empty = torch.full(shape, torch.nan, device=device, dtype=dtype)
    return Inputs(
        normal(*shape), normal(case.rows + 2, dilated.tail, case.channels),
        torch.randperm(case.rows + 2, generator=noise, device=device)[: case.rows],
        dilated, snake(), conv(1, 1), normal(*shape), snake(), empty.clone() if case.plain else None, empty,
    )  # fmt: skip


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    """Torch runs the two products one after the other."""
    given = inputs(case, device, dtype)
    convs, snakes = (given.dilated, given.pointwise), (given.between, given.activation)
    weights = [tensor for conv in convs for tensor in (conv.weight, conv.bias)]
    weights += [tensor for snake in snakes for tensor in (snake.frequency, snake.gain)]
    moved = case.rows * given.tail[0].nbytes + nbytes(given.x, given.residual, given.plain, given.active, *weights)
    return Work(residual_unit, _apart, tuple(vars(given).values()), (given.tail, *weights), moved, case.flops)


def _apart(
    x: Tensor,
    tail: Tensor,
    slots: Tensor,
    dilated: ConvWeights,
    between: SnakeWeights,
    pointwise: ConvWeights,
    residual: Tensor,
    activation: SnakeWeights,
    plain: Tensor | None,
    active: Tensor,
) -> None:
    middle = torch.empty_like(x)
    unfolded(x, tail, slots, dilated, None, between, None, middle)
    unfolded(middle, None, slots, pointwise, residual, activation, plain, active)
