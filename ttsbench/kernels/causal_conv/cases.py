"""Named shapes of the convolution: odd ones for the tests, the released codec's for tests and benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.causal_conv import causal_conv
from ttsbench.kernels.causal_conv.packed import TICKETS, ConvWeights, SnakeWeights
from ttsbench.kernels.causal_conv.reference import snake
from ttsbench.kernels.work import LARGE, Sizes, Work, nbytes


@dataclass(frozen=True)
class Case:
    """`rows` streams of `length` positions, `channels` to `width`. `plain` and `snake`: what is written."""

    name: str
    rows: int
    length: int
    channels: int
    width: int
    taps: int
    dilation: int = 1
    residual: bool = False
    plain: bool = False
    snake: bool = True

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.length * self.taps * self.channels * self.width


@dataclass(frozen=True)
class Inputs:
    """Arguments of the operation, in its order."""

    x: Tensor
    tail: Tensor | None
    slots: Tensor
    conv: ConvWeights
    residual: Tensor | None
    activation: SnakeWeights | None
    plain: Tensor | None
    active: Tensor | None

    def run(self, operation: Callable[..., None], **options: object) -> None:
        operation(*vars(self).values(), **options)


SMALL = (
    Case("one position", 1, 1, 16, 16, taps=3),
    Case("a tail longer than the frame", 2, 4, 16, 24, taps=7, dilation=3),
    Case("odd widths and a ragged last tile", 3, 7, 20, 36, taps=7, dilation=2),
    Case("residual unit", 2, 9, 32, 32, taps=1, residual=True, plain=True),
    Case("end of a block", 3, 5, 96, 96, taps=1, residual=True),
    Case("upsampler", 2, 4, 32, 48, taps=2, plain=True),
    Case("sum alone", 2, 3, 16, 40, taps=3, plain=True, snake=False),
    Case("split sums", 1, 4, 64, 64, taps=7),
)
"""Small enough for the interpreter."""

_BLOCKS = ((32, 768, 1920), (160, 384, 768), (640, 192, 288), (1920, 96, None))
"""(positions a frame, channels, columns of the next upsampler) of the four blocks."""


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """Every distinct product of one frame of `rows` streams through the released decoder."""
    cases = [
        Case("pre_conv", rows, 1, 512, 512, taps=3, plain=True, snake=False),
        Case("decoder.0", rows, 4, 1024, 1536, taps=7),
        Case("upsampler 8", rows, 4, 1536, 6144, taps=2, plain=True),
    ]
    for length, channels, width in _BLOCKS:
        cases += [Case(f"unit {channels} d{d}", rows, length, channels, channels, taps=7, dilation=d) for d in (1, 9)]
        cases.append(Case(f"unit {channels} 1x1", rows, length, channels, channels, taps=1, residual=True, plain=True))
        if width is not None:
            cases.append(Case(f"upsampler to {width}", rows, length, channels, width, taps=2, plain=True))
    return cases


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype, seed: int = 0) -> Inputs:
    """Random inputs of size 1 and outputs full of NaN; streams lie in scattered slots."""
    noise = torch.Generator(device).manual_seed(seed)  # on the device: at 128 rows there are 25 million

    def normal(*shape: int, scale: float = 1.0, kind: torch.dtype = dtype) -> Tensor:
        return (torch.randn(shape, generator=noise, device=device) * scale).to(kind)

    terms, wide = case.taps * case.channels, torch.promote_types(dtype, torch.float32)
    out = (case.rows, case.length, case.width)
    tail = (case.taps - 1) * case.dilation
    conv = ConvWeights(
        normal(terms, case.width, scale=terms**-0.5),
        normal(case.width, kind=wide),
        torch.zeros(TICKETS, dtype=torch.int32, device=device),
        case.taps,
        case.dilation,
    )
    activation = SnakeWeights(normal(case.width, kind=wide).exp(), normal(case.width, kind=wide).exp())
    empty = torch.full(out, torch.nan, device=device, dtype=dtype)
    return Inputs(
        normal(case.rows, case.length, case.channels),
        normal(case.rows + 2, tail, case.channels) if tail else None,
        torch.randperm(case.rows + 2, generator=noise, device=device)[: case.rows],
        conv,
        normal(*out) if case.residual else None,
        activation if case.snake else None,
        empty.clone() if case.plain else None,
        empty.clone() if case.snake else None,
    )


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    given = inputs(case, device, dtype)
    conv, activation = given.conv, given.activation
    snake_weights = () if activation is None else (activation.frequency, activation.gain)
    weights = (conv.weight, conv.bias, *snake_weights)
    tails = 0 if given.tail is None else case.rows * given.tail[0].nbytes
    moved = tails + nbytes(given.x, given.residual, given.plain, given.active, *weights)
    cold = (given.tail, *weights)
    return Work(causal_conv, unfolded, tuple(vars(given).values()), cold, moved, case.flops)


def unfolded(
    x: Tensor,
    tail: Tensor | None,
    slots: Tensor,
    conv: ConvWeights,
    residual: Tensor | None,
    activation: SnakeWeights | None,
    plain: Tensor | None,
    active: Tensor | None,
) -> None:
    """The operation as torch does it best: a library product over gathered inputs, in their own dtype."""
    full = x if tail is None else torch.cat((tail[slots], x), dim=1)
    n = x.shape[1]
    windows = [full[:, t * conv.dilation : t * conv.dilation + n] for t in range(conv.taps)]
    out = torch.cat(windows, dim=2) @ conv.weight + conv.bias
    if residual is not None:
        out = out + residual
    if plain is not None:
        plain.copy_(out)
    if active is not None and activation is not None:
        active.copy_(snake(out, activation))
