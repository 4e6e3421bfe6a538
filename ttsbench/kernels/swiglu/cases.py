"""Named shapes of the gate."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.swiglu import silu_mul
from ttsbench.kernels.swiglu.reference import silu_mul as plain
from ttsbench.kernels.work import LARGE, PREDICTOR, Sizes, Work, over


@dataclass(frozen=True)
class Case:
    """Rows of `inner` gates and as many values."""

    name: str
    rows: int
    inner: int
    scale: float = 1.0
    """Size of the gates: large ones saturate."""


SMALL = (
    Case("one element", 1, 1),
    Case("odd width", 3, 37),
    Case("three programs a row", 2, 2060),
    Case("saturated gates", 2, 64, scale=100.0),
)


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """Of the code predictor and of the talker."""
    return [Case(f"released, {rows} rows of {n}", rows, n) for n in sorted({PREDICTOR.inner, sizes.inner})]


RELEASED = over((1, 32, 128, 512), released)


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype) -> Tensor:
    """Packed rows [N, 2 I]."""
    noise = torch.Generator().manual_seed(0)
    return (torch.randn(case.rows, 2 * case.inner, generator=noise) * case.scale).to(device, dtype)


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    gate_up = inputs(case, device, dtype)
    return Work(silu_mul, plain, (gate_up,), cold=(), num_bytes=1.5 * gate_up.nbytes)
