"""Attention of packed rows over a paged KV cache, head norms, rotation and the cache write included."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.attention.reference import Heads, KVRows
from ttsbench.kernels.attention.reference import paged_attention as reference

__all__ = ["Heads", "KVRows", "paged_attention"]


def paged_attention(qkv: Tensor, heads: Heads, rows: KVRows, keys: Tensor, values: Tensor, query_len: int) -> Tensor:
    """Attention output [N, H * E] of packed rows `qkv` [N, (H + 2 K) * E]; writes the rows' keys and values.

    `query_len` bounds the rows that one slot may have in this call. At 1, which is what a decode step has, a row needs
    no other row's key, and the whole operation is one kernel; above, all keys are written before any is read. What is
    computed: `reference.py`.
    """
    if qkv.is_cuda:
        from ttsbench.kernels.attention.triton import paged_attention as kernel

        return kernel(qkv, heads, rows, keys, values, query_len)
    return reference(qkv, heads, rows, keys, values, query_len)
