"""Residual sum and RMSNorm in one pass."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.rms_norm import reference

__all__ = ["add_rms_norm", "gathered_rms_norm"]


def add_rms_norm(x: Tensor, residual: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(norm(x + residual), x + residual) of rows [N, D]; `residual` None adds nothing. Formula: `reference.py`."""
    if x.is_cuda:
        from ttsbench.kernels.rms_norm import triton

        return triton.add_rms_norm(x, residual, weight, eps)
    return reference.add_rms_norm(x, residual, weight, eps)


def gathered_rms_norm(x: Tensor, where: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(norm(rows), rows) of the rows `where` [N] (int64) of `x` [P, D]."""
    if x.is_cuda:
        from ttsbench.kernels.rms_norm import triton

        return triton.gathered_rms_norm(x, where, weight, eps)
    return reference.add_rms_norm(x.index_select(0, where), None, weight, eps)
