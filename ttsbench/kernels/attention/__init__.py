"""Attention of packed rows over a paged KV cache, head norms, rotation and the cache write included."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.attention.reference import Heads, KVRows
from ttsbench.kernels.attention.reference import paged_attention as reference

__all__ = ["Heads", "KVRows", "paged_attention"]


def paged_attention(qkv: Tensor, heads: Heads, rows: KVRows, keys: Tensor, values: Tensor, query_len: int) -> Tensor:
    """Attention output [N, H * E] of packed rows `qkv` [N, (H + 2 K) * E]; writes the rows' keys and values.

    `query_len` bounds the rows that one slot may have in this call; they stand side by side. At 1, which is what a
    decode step has, a row needs no other row's key, and the whole operation is one kernel, as it is at 2; above, keys
    are written before any is read.

    On a GPU earlier keys are read before the kernel in front has ended, so their writer must stand further off than
    that one, and a kernel between the two must let the next start after its own wait, as this one does (`overlap.py`).
    What is computed: `reference.py`.
    """
    if qkv.is_cuda:
        from ttsbench.kernels.attention import cuda, triton

        kernel = cuda.paged_attention if cuda.supports(qkv, heads, rows) else triton.paged_attention
        return kernel(qkv, heads, rows, keys, values, query_len)
    return reference(qkv, heads, rows, keys, values, query_len)
