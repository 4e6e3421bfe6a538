"""Shapes of matrix-vector products: toys whose widths are no powers of two, and those of a decode step with one row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.linear import linear
from ttsbench.kernels.work import LARGE, PREDICTOR, Sizes, Work, nbytes


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


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """Every distinct product of one row; of several rows none, for those are the library's."""
    if rows > 1:
        return []
    stacks = {"predictor": PREDICTOR, "talker": sizes} if sizes != PREDICTOR else {"predictor and talker": sizes}
    cases = [Case("predictor head", 2048, PREDICTOR.width), Case("talker head", 3072, sizes.width)]
    for name, of in stacks.items():
        cases += [
            Case(f"{name} qkv", 4096, of.width),
            Case(f"{name} o", of.width, 2048),
            Case(f"{name} gate and up", 2 * of.inner, of.width),
            Case(f"{name} down", of.width, of.inner),
        ]
    return cases if sizes == PREDICTOR else [*cases, Case("projection", PREDICTOR.width, sizes.width, bias=True)]


RELEASED = tuple(released(1))


def inputs(case: Case, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
    """Seeded x [1, D], weight [M, D] and bias [M] or None."""
    noise = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=noise, device=device).to(dtype)

    return normal(1, case.width), normal(case.outputs, case.width), normal(case.outputs) if case.bias else None


def work(case: Case, device: str, dtype: torch.dtype) -> Work:
    x, weight, bias = inputs(case, device, dtype)
    moved = nbytes(x, weight, bias) + case.outputs * x.element_size()
    return Work(linear, F.linear, (x, weight, bias), (weight, bias), moved, 2.0 * weight.numel())
