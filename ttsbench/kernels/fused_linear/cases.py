"""Named products: toys whose sizes fit no tile, and all those of a decode step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.fused_linear import gated_linear, is_fused, linear, reference, residual_linear
from ttsbench.kernels.fused_linear.normed import Normed
from ttsbench.kernels.work import LARGE, PREDICTOR, Sizes, Work, nbytes


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


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """The products of a step of `rows` rows: talker and code predictor of one released model."""
    cases = [
        Case("talker head", rows, 3072, sizes.width, parts=sizes.width // 32),
        Case("predictor head", rows, 2048, PREDICTOR.width, parts=PREDICTOR.width // 32),
    ]
    for of in dict.fromkeys((sizes, PREDICTOR)):
        cases += [
            Case(f"qkv of {of.width}", rows, 4096, of.width, parts=of.width // 32),
            Case(f"o of {of.width}", rows, of.width, 2048, "residual"),
            Case(f"gate and up of {of.width}", rows, of.inner, of.width, "gated", parts=of.width // 32),
            Case(f"down of {of.width}", rows, of.width, of.inner, "residual"),
        ]
    if sizes.width != PREDICTOR.width:
        cases.append(Case("projection", rows, PREDICTOR.width, sizes.width, "bias", parts=sizes.width // 32))
    return cases


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


def work(case: Case, device: str, dtype: torch.dtype) -> Work:
    """Torch finishes the norm first, where there is one, and multiplies with the library's product."""
    given = inputs(case, device, dtype)
    weight = given.weight
    outputs = (2 if case.kind == "residual" else 1) * case.rows * case.outputs * weight.element_size()
    moved = nbytes(given.x.rows, given.x.squares, weight, given.bias, given.residual, given.norm) + outputs
    cold, flops = (weight, given.bias, given.norm), 2.0 * case.rows * weight.numel()
    about = cold, moved, flops, is_the_librarys(case.rows, weight)
    if case.kind == "gated":
        return Work(gated_linear, _gated, (given.x, weight), *about)
    if case.kind == "residual":
        arguments = (given.x.rows, weight, given.residual, given.norm, given.eps)
        return Work(residual_linear, reference.residual_linear, arguments, *about)
    return Work(linear, _linear, (given.x, weight, given.bias, given.out), *about)


def is_the_librarys(rows: int, weight: Tensor) -> bool:
    """On a GPU; on a CPU, where nothing is timed, everything is."""
    return weight.is_cuda and not is_fused(rows, weight)


def _gated(x: Normed, weight: Tensor) -> Tensor:
    return reference.gated_linear(x.finished(), weight)


def _linear(x: Normed, weight: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
    result = reference.linear(x.finished(), weight, bias)
    return result if out is None else out.copy_(result)
