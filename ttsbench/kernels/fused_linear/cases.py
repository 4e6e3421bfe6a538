"""Named products: toys whose sizes fit no tile, and all those of a decode step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.fused_linear.normed import Normed


@dataclass(frozen=True)
class Case:
    """`outputs` of `rows` rows of `width`; a gated product's weight has twice as many rows."""

    name: str
    rows: int
    outputs: int
    width: int
    kind: str = "plain"
    """plain, bias, gated or residual."""
    parts: int = 0
    """The rows lack the scale of their norm; their sums of squares come in this many parts."""
    apart: bool = False
    """Rows of input and output are every second one of their memory."""


SMALL = (
    Case("one output, one term", 1, 1, 1),
    Case("one row, bias", 1, 7, 24, "bias"),
    Case("one row, gated", 1, 37, 48, "gated", parts=3),
    Case("one row, residual", 1, 33, 72, "residual"),
    Case("one row, scaled", 1, 20, 1025, parts=2),
    Case("two rows, bias", 2, 37, 24, "bias"),
    Case("odd sizes", 3, 37, 29, parts=2),
    Case("scaled, apart", 5, 48, 64, parts=3, apart=True),
    Case("gated, odd outputs", 9, 37, 40, "gated", parts=1),
    Case("residual, odd outputs", 9, 37, 56, "residual"),
    Case("residual, several tiles of rows", 70, 40, 96, "residual"),
    Case("gated, several tiles of rows", 37, 64, 128, "gated", parts=5),
)


def released(rows: int) -> tuple[Case, ...]:
    """The products of a step of `rows` rows at both released sizes."""
    return (
        Case("qkv of 2048", rows, 4096, 2048, parts=64),
        Case("o of 2048", rows, 2048, 2048, "residual"),
        Case("gate and up of 2048", rows, 6144, 2048, "gated", parts=64),
        Case("down of 2048", rows, 2048, 6144, "residual"),
        Case("qkv of 1024", rows, 4096, 1024, parts=32),
        Case("o of 1024", rows, 1024, 2048, "residual"),
        Case("gate and up of 1024", rows, 3072, 1024, "gated", parts=32),
        Case("down of 1024", rows, 1024, 3072, "residual"),
        Case("talker head", rows, 3072, 2048, parts=64),
        Case("predictor head", rows, 2048, 1024, parts=32),
        Case("projection", rows, 1024, 2048, "bias", parts=64),
    )


@dataclass(frozen=True)
class Inputs:
    """What a product takes, and `plain`: the rows with their norm finished, in float64."""

    x: Normed
    plain: Tensor
    weight: Tensor
    bias: Tensor | None
    residual: Tensor | None
    norm: Tensor | None
    eps: float
    out: Tensor | None


def inputs(case: Case, device: str, dtype: torch.dtype) -> Inputs:
    noise = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=noise, device=device)

    step = 2 if case.apart else 1
    total = normal(case.rows * step, case.width).to(dtype)
    weight = normal(case.outputs * (2 if case.kind == "gated" else 1), case.width).to(dtype)
    residual = norm = out = None
    x, plain = Normed(total), total.double()
    if case.parts:
        by_channel = (1 + 0.1 * normal(case.width)).to(dtype)
        # As the sums of squares of `parts` tiles of the row.
        tiles = F.pad(total.float(), (0, -case.width % case.parts)).view(len(total), case.parts, -1)
        x = Normed(total * by_channel, tiles.square().sum(2).T.contiguous(), 1e-6)
        scale = torch.rsqrt(plain.square().mean(1, keepdim=True) + 1e-6)
        plain = plain * scale * by_channel.double()
    if case.apart:
        x, plain = x.every(1, 2), plain[1::2]
        out = torch.zeros(case.rows, 2, case.outputs, device=device, dtype=dtype)[:, 1]
    if case.kind == "residual":
        residual, norm = normal(case.rows, case.outputs).to(dtype) * case.width**0.5, normal(case.outputs).to(dtype)
    bias = normal(case.outputs).to(dtype) if case.kind == "bias" else None
    return Inputs(x, plain, weight, bias, residual, norm, 1e-6, out)
