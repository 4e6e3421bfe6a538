"""Codes of one frame to its dequantised vector."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.codebook_sum.reference import codebook_sum as reference

__all__ = ["codebook_sum"]


def codebook_sum(codes: Tensor, table: Tensor, out: Tensor) -> None:
    """`out` [B, D] becomes the sum of the rows of `table` [Q * N, D] that `codes` [B, Q] int64 stand for."""
    if codes.is_cuda:
        from ttsbench.kernels.codebook_sum.triton import codebook_sum as kernel

        kernel(codes, table, out)
    else:
        reference(codes, table, out)
