"""Depthwise causal convolution and LayerNorm in one pass."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.dwconv_norm.packed import DepthwiseNorm
from ttsbench.kernels.dwconv_norm.reference import dwconv_norm as reference

__all__ = ["DepthwiseNorm", "dwconv_norm"]


def dwconv_norm(x: Tensor, weights: DepthwiseNorm) -> Tensor:
    """norm(conv(x)) [n, B, C] of `x` [T + n, B, C], which begins with the past. Formula: `reference.py`."""
    if x.is_cuda:
        from ttsbench.kernels.dwconv_norm.triton import dwconv_norm as kernel

        return kernel(x, weights)
    return reference(x, weights)
