"""Residual sum and RMSNorm in one pass."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.rms_norm.reference import add_rms_norm as reference

__all__ = ["add_rms_norm"]


def add_rms_norm(x: Tensor, residual: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(norm(x + residual), x + residual) of rows [N, D]; `residual` None adds nothing. Formula: `reference.py`."""
    if x.is_cuda:
        from ttsbench.kernels.rms_norm.triton import add_rms_norm as kernel

        return kernel(x, residual, weight, eps)
    return reference(x, residual, weight, eps)
