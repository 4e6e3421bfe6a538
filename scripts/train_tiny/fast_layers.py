"""The talker's decoder layer for training: the module's own formula, cut into two pure functions around attention.

`torch.compile` fuses each of them into a few kernels. Both see flat rows [N, D] whatever the batch's shape, so one
compilation serves all sequence lengths. Parameters stay those of `ttsbench.models.qwen3_tts.transformer`; a test holds
the two formulas equal.

Shapes: N = B x S rows, D width, H query heads, K key-value heads, E head width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.models.qwen3_tts.transformer import DecoderLayer, DecoderStack, rotary_angles

Watch = Callable[[int, Tensor, Tensor], None]
"""Sees (layer, q [B, S, H, E], k [B, S, K, E]) of every layer."""


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight.to(x.dtype)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def _before(
    x: Tensor, cos: Tensor, sin: Tensor, norms: tuple[Tensor, ...], weights: tuple[Tensor, ...], eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Rotated queries [N, H, E], keys and values [N, K, E] of rows `x` [N, D]; cos and sin [N, 1, E]."""
    input_norm, q_norm, k_norm = norms
    width = q_norm.shape[0]
    y = _norm(x, input_norm, eps)
    q, k, v = (F.linear(y, w.to(x.dtype)).view(x.shape[0], -1, width) for w in weights)
    return _rotate(_norm(q, q_norm, eps), cos, sin), _rotate(_norm(k, k_norm, eps), cos, sin), v


def _after(
    x: Tensor, attended: Tensor, norm: Tensor, weights: tuple[Tensor, ...], eps: float, dropout: float
) -> Tensor:
    """Rows after attention's output [N, H * E] and the MLP are added to `x` [N, D]."""
    o, gate, up, down = (w.to(x.dtype) for w in weights)
    x = x + F.dropout(F.linear(attended, o), dropout)
    y = _norm(x, norm, eps)
    return x + F.dropout(F.linear(F.silu(F.linear(y, gate)) * F.linear(y, up), down), dropout)


class FastStack:
    """Runs a `DecoderStack` over whole sequences [B, S] with causal attention, for training."""

    def __init__(self, stack: DecoderStack, dropout: float, compiled: bool) -> None:
        self._stack = stack
        self._dropout = dropout
        self._before: Callable[..., Any] = torch.compile(_before, dynamic=False) if compiled else _before
        self._after: Callable[..., Any] = torch.compile(_after, dynamic=False) if compiled else _after

    def __call__(self, x: Tensor, rows: int, watch: Watch | None = None, training: bool = True) -> Tensor:
        """Hidden states [N, D] after the final norm of `rows` sequences' input `x` [N, D], sequence by sequence."""
        config = self._stack.config
        steps = x.shape[0] // rows
        positions = torch.arange(steps, device=x.device).repeat(rows)
        cos, sin = rotary_angles(positions, config.head_dim, config.rope_theta, x.dtype)
        for index, layer in enumerate(self._stack.layers):
            assert isinstance(layer, DecoderLayer)
            x = self._layer(index, layer, x, rows, (cos, sin), training, watch)
        return _norm(x, self._stack.norm.weight, config.rms_norm_eps)

    def _layer(
        self,
        index: int,
        layer: DecoderLayer,
        x: Tensor,
        rows: int,
        angles: tuple[Tensor, Tensor],
        training: bool,
        watch: Watch | None,
    ) -> Tensor:
        # other shapes than training's are measured with: compiling for each would cost more than it saves
        before, after = (self._before, self._after) if training else (_before, _after)
        attention, mlp, eps = layer.self_attn, layer.mlp, self._stack.config.rms_norm_eps
        norms = (layer.input_layernorm.weight, attention.q_norm.weight, attention.k_norm.weight)
        projections = (attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight)
        q, k, v = before(x, *angles, norms, projections, eps)
        q, k, v = (heads.view(rows, -1, *heads.shape[1:]) for heads in (q, k, v))
        if watch is not None:
            watch(index, q, k)
        group = q.shape[2] // k.shape[2]
        if group > 1:
            k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
        q, k, v = (heads.transpose(1, 2) for heads in (q, k, v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape[0], -1)
        weights = (attention.o_proj.weight, mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight)
        dropout = self._dropout if training else 0.0
        out: Tensor = after(x, attended, layer.post_attention_layernorm.weight, weights, eps, dropout)
        return out
