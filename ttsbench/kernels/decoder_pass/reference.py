"""A decoder stack over one new position of each row, its final norm, and the logits of a head.

    x += attention(norm(x) qkv^T) o^T;    x += (silu(gate) * up) down^T, gate and up = norm(x) gate_up^T

for every layer, pre-norm as in Qwen3; what norm, attention and silu are: the references of `rms_norm`, `attention` and
`swiglu`. Every product, sum and norm is rounded to the dtype of `x`.

Shapes: R rows, D width, V outputs of the head, L layers, P cache positions, K key-value heads, E head width.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ttsbench.kernels.attention.reference import KVRows, paged_attention
from ttsbench.kernels.decoder_pass.types import Stack
from ttsbench.kernels.rms_norm.reference import add_rms_norm
from ttsbench.kernels.swiglu.reference import silu_mul


def decoder_pass(
    x: Tensor, stack: Stack, head: Tensor, rows: KVRows, kv: Tensor, attend: Callable[..., Tensor] = paged_attention
) -> tuple[Tensor, Tensor]:
    """Logits [R, V] and the hidden states [R, D] that they come from, of input rows `x` [R, D].

    Each row is one position of a slot of its own; `kv` [L, 2, P, K, E] has the positions before it, and receives it.
    `attend` is the formula of `paged_attention`, or another way to compute it.
    """
    residual: Tensor | None = None
    for layer, (keys, values) in zip(stack.layers, kv, strict=True):
        normed, residual = add_rms_norm(x, residual, layer.input_norm, stack.eps)
        attended = attend(normed @ layer.qkv.T, layer.heads, rows, keys, values, query_len=1)
        normed, residual = add_rms_norm(attended @ layer.o.T, residual, layer.post_norm, stack.eps)
        x = silu_mul(normed @ layer.gate_up.T) @ layer.down.T
    hidden, _ = add_rms_norm(x, residual, stack.norm, stack.eps)
    return hidden @ head.T, hidden
