"""Attention of one new position per stream over a window kept in a ring."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.ring_attention.reference import ring_attention as reference

__all__ = ["ring_attention"]


def ring_attention(
    qkv: Tensor, keys: Tensor, values: Tensor, slots: Tensor, position: Tensor, frequencies: Tensor, window: int
) -> Tensor:
    """[B, H * E] of packed `qkv` [B, (H + 2 K) * E]; stores the turned key and the value. Formula: `reference.py`."""
    if qkv.is_cuda:
        from ttsbench.kernels.ring_attention.triton import ring_attention as kernel

        return kernel(qkv, keys, values, slots, position, frequencies, window)
    return reference(qkv, keys, values, slots, position, frequencies, window)
