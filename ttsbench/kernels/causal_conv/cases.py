"""Named shapes of the convolution: odd ones for the tests, the released codec's for tests and benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.causal_conv import causal_conv
from ttsbench.kernels.causal_conv.packed import TICKETS, Activation, ConvWeights, Gelu, SnakeWeights
from ttsbench.kernels.causal_conv.reference import merged, phased, snake
from ttsbench.kernels.work import LARGE, Sizes, Work, nbytes


@dataclass(frozen=True)
class Case:
    """`rows` streams of `length` positions, `channels` to `width` = `phases` positions. `plain`, `snake`: outputs."""

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
    phases: int = 1
    gelu: bool = False
    """In the place of the Snake."""

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.length * self.taps * self.channels * self.width


@dataclass(frozen=True)
class Inputs:
    """Arguments of the operation, in its order."""

    x: Tensor
    conv: ConvWeights
    residual: Tensor | None
    activation: Activation | None
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
    Case("upsampler", 3, 4, 32, 48, taps=2, plain=True, phases=3),
    Case("sum alone", 2, 3, 16, 40, taps=3, plain=True, snake=False),
    Case("GELU", 3, 2, 32, 40, taps=1, gelu=True),
    Case("split sums", 1, 4, 64, 64, taps=7),
)
"""Small enough for the interpreter."""

_BLOCKS = ((32, 768, 5), (160, 384, 4), (640, 192, 3), (1920, 96, None))
"""(positions a frame, channels, rate of the next upsampler) of the four blocks."""


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """Every distinct product of one frame of `rows` streams through the released decoder."""
    cases = [
        Case("pre_conv", rows, 1, 512, 512, taps=3, plain=True, snake=False),
        Case("stage upsampler", rows, 2, 1024, 2048, taps=1, plain=True, snake=False, phases=2),
        Case("stage widen", rows, 4, 1024, 4096, taps=1, gelu=True),
        Case("stage narrow", rows, 4, 4096, 1024, taps=1, residual=True, plain=True, snake=False),
        Case("decoder.0", rows, 4, 1024, 1536, taps=7),
        Case("upsampler 8", rows, 4, 1536, 6144, taps=2, plain=True, phases=8),
    ]
    for length, channels, rate in _BLOCKS:
        cases += [Case(f"unit {channels} d{d}", rows, length, channels, channels, taps=7, dilation=d) for d in (1, 9)]
        cases.append(Case(f"unit {channels} 1x1", rows, length, channels, channels, taps=1, residual=True, plain=True))
        if rate is not None:
            width = channels // 2 * rate
            cases.append(Case(f"upsampler {rate}", rows, length, channels, width, taps=2, plain=True, phases=rate))
    return cases


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype, seed: int = 0) -> Inputs:
    """Random inputs of size 1 and outputs full of NaN."""
    noise = torch.Generator(device).manual_seed(seed)  # on the device: at 128 rows there are 25 million

    def normal(*shape: int, scale: float = 1.0, kind: torch.dtype = dtype) -> Tensor:
        return (torch.randn(shape, generator=noise, device=device) * scale).to(kind)

    terms, wide = case.taps * case.channels, torch.promote_types(dtype, torch.float32)
    out = (case.length * case.phases, case.rows, case.width // case.phases)
    conv = ConvWeights(
        normal(terms, case.width, scale=terms**-0.5),
        normal(case.width, kind=wide),
        torch.zeros(TICKETS, dtype=torch.int32, device=device),
        case.taps,
        case.dilation,
    )
    activation: Activation = Gelu()
    if not case.gelu:
        activation = SnakeWeights(normal(case.width, kind=wide).exp(), normal(case.width, kind=wide).exp())
    empty = torch.full(out, torch.nan, device=device, dtype=dtype)
    return Inputs(
        normal(conv.tail + case.length, case.rows, case.channels),
        conv,
        normal(*out) if case.residual else None,
        activation if case.snake else None,
        empty.clone() if case.plain else None,
        empty.clone() if case.snake else None,
    )


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    given = inputs(case, device, dtype)
    conv, activation = given.conv, given.activation
    weights: tuple[Tensor, ...] = (conv.weight, conv.bias)
    if isinstance(activation, SnakeWeights):
        weights += activation.frequency, activation.gain
    moved = nbytes(given.x, given.residual, given.plain, given.active, *weights)
    return Work(causal_conv, unfolded, tuple(vars(given).values()), weights, moved, case.flops)


def unfolded(
    x: Tensor,
    conv: ConvWeights,
    residual: Tensor | None,
    activation: Activation | None,
    plain: Tensor | None,
    active: Tensor | None,
) -> None:
    """The operation as torch does it best: a library product over gathered inputs, in their own dtype."""
    n = x.shape[0] - conv.tail
    windows = [x[t * conv.dilation : t * conv.dilation + n] for t in range(conv.taps)]
    out = (torch.cat(windows, dim=2) if conv.taps > 1 else x) @ conv.weight + conv.bias
    if residual is not None:
        out = out + merged(residual, n)
    if plain is not None:
        plain.copy_(phased(out, plain))
    if active is not None and activation is not None:
        active.copy_(phased(F.gelu(out) if isinstance(activation, Gelu) else snake(out, activation), active))
