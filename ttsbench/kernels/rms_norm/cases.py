"""Named shapes of the residual sum with its norm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.rms_norm import add_rms_norm
from ttsbench.kernels.rms_norm.reference import add_rms_norm as plain
from ttsbench.kernels.work import LARGE, PREDICTOR, Sizes, Work, nbytes, over


@dataclass(frozen=True)
class Case:
    """Rows [rows, width]; `residual` False is the first norm of a stack, which has none to add."""

    name: str
    rows: int
    width: int
    residual: bool = True
    scale: float = 1.0
    """Size of the rows: the norm has much or little to do."""


SMALL = (
    Case("one row", 1, 16),
    Case("first layer", 3, 24, residual=False),
    Case("odd width", 4, 37),
    Case("one element", 2, 1),
    Case("large rows", 2, 56, scale=1000.0),
    Case("rows near zero, where eps counts", 2, 24, scale=1e-4),
)


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """Of the code predictor and of the talker."""
    return [Case(f"released, {rows} rows of {d}", rows, d) for d in sorted({PREDICTOR.width, sizes.width})]


RELEASED = over((1, 32, 128, 512), released)


@dataclass(frozen=True)
class Inputs:
    """In the order of the operation's arguments."""

    x: Tensor
    residual: Tensor | None
    weight: Tensor
    eps: float = 1e-6


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype) -> Inputs:
    noise = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=noise).to(device, dtype)

    x, residual = (normal(case.rows, case.width) * case.scale for _ in range(2))
    return Inputs(x, residual if case.residual else None, normal(case.width))


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    given = inputs(case, device, dtype)
    moved = nbytes(given.x, given.residual, given.weight) + (2 if case.residual else 1) * given.x.nbytes
    return Work(add_rms_norm, plain, tuple(vars(given).values()), cold=(given.weight,), num_bytes=moved)
