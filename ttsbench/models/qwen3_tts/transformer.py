"""The pre-norm decoder layer that talker and code predictor share.

Layers work on rows of any leading shape and never own a KV cache: each calls an `Attend` with its rotated queries, keys
and values, and whoever runs the stack decides where keys and values live. Grouped-query attention, RMSNorm on every
query and key head, rotate-half RoPE, SwiGLU, no biases. The published interleaved M-RoPE has three equal axes here,
which makes it this plain RoPE.

Shapes: ... leading, D width, H query heads, K key-value heads, E head width.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ttsbench.models.qwen3_tts.config import TransformerConfig


class Attend(Protocol):
    """Stores `k`, `v` [..., K, E] of layer `layer` and returns the attention output [..., H, E] of `q` [..., H, E]."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...


class Embedding(nn.Module):
    """Rows of a table: `nn.Embedding` without its random start, which on the meta device imports a compiler."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, width))

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight)


class RMSNorm(nn.Module):
    """x / rms(x) in float32, back to the input's dtype, then times the weight: the published order of casts.

    Float64 stays float64, which is what tests of exactness run in.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return F.rms_norm(wide, x.shape[-1:], eps=self.eps).to(x.dtype) * self.weight


def rotary_angles(positions: Tensor, head_dim: int, theta: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin [..., 1, head_dim] of `positions` [...]; angles in float32, pairs are (i, i + head_dim / 2)."""
    exponents = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32) / head_dim
    angles = positions[..., None].float() * theta**-exponents
    angles = torch.cat((angles, angles), dim=-1).unsqueeze(-2)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate-half RoPE of heads `x` [..., heads, E]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Projections, head norms and rotation around an `Attend`."""

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.head_dim = config.head_dim
        width, heads, kv_heads = config.hidden_size, config.num_heads, config.num_kv_heads
        self.q_proj = nn.Linear(width, heads * config.head_dim, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * config.head_dim, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * config.head_dim, bias=False)
        self.o_proj = nn.Linear(heads * config.head_dim, width, bias=False)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        heads = (*x.shape[:-1], -1, self.head_dim)
        q = rotate(self.q_norm(self.q_proj(x).view(heads)), cos, sin)
        k = rotate(self.k_norm(self.k_proj(x).view(heads)), cos, sin)
        v = self.v_proj(x).view(heads)
        return self.o_proj(attend(self.layer, q, k, v).flatten(-2))


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """Norm, attention, residual; norm, SwiGLU, residual."""

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = SwiGLU(config.hidden_size, config.intermediate_size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, attend)
        return x + self.mlp(self.post_attention_layernorm(x))


class DecoderStack(nn.Module):
    """All layers and the final norm. Subclasses add the embeddings that live beside them in the published files."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(DecoderLayer(config, i) for i in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def run(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states [..., D] after the final norm of input rows `x` [..., D] at absolute `positions` [...]."""
        cos, sin = rotary_angles(positions, self.config.head_dim, self.config.rope_theta, x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin, attend)
        return self.norm(x)


def grouped_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of `q` [B, T, H, E] over `k`, `v` [B, S, K, E]; `mask` [T, S] or [B, T, S] is True where a key is seen.

    The H / K queries that share a key head become rows of one product, so keys and values are never copied per head.
    Returns [B, T, H, E].
    """
    rows, steps, heads, width = q.shape
    kv_heads = k.shape[2]
    group = heads // kv_heads
    q = q.view(rows, steps, kv_heads, group, width).permute(0, 2, 3, 1, 4).reshape(rows, kv_heads, group * steps, width)
    if mask is not None:
        mask = mask.expand(rows, steps, -1)[:, None].repeat(1, 1, group, 1)
    out = F.scaled_dot_product_attention(q, k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask)
    return out.view(rows, kv_heads, group, steps, width).permute(0, 3, 1, 2, 4).reshape(rows, steps, heads, width)


class DenseCache:
    """Keys and values of B sequences of equal length, and causal attention over them: the plain way to run a stack.

    Positions are fed in order, any number at a time. `capacity` bounds the length.
    """

    def __init__(self, config: TransformerConfig, rows: int, capacity: int, like: Tensor) -> None:
        shape = (config.num_layers, 2, rows, capacity, config.num_kv_heads, config.head_dim)
        self.kv = torch.zeros(shape, device=like.device, dtype=like.dtype)
        self.length = 0

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """An `Attend` over [B, T, heads, E]; call `advance` once all layers have run."""
        steps, start = q.shape[1], self.length
        end = start + steps
        keys, values = self.kv[layer]
        keys[:, start:end] = k
        values[:, start:end] = v
        mask = None
        if steps > 1:
            seen = torch.arange(end, device=q.device)
            mask = seen[None, :] <= torch.arange(start, end, device=q.device)[:, None]
        return grouped_attention(q, keys[:, :end], values[:, :end], mask)

    def advance(self, steps: int) -> None:
        self.length += steps
