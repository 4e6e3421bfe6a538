"""One new position per stream attends to itself and to the last `window` - 1 in its slot's ring.

Rotate-half RoPE turns the new query and key: angle = position * frequency. Row p % ring of a slot's ring holds position
p; the new key and value are stored there.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def ring_attention(
    qkv: Tensor, keys: Tensor, values: Tensor, slots: Tensor, position: Tensor, frequencies: Tensor, window: int
) -> Tensor:
    """[B, H * E] of packed projections `qkv` [B, (H + 2 K) * E]; `keys` and `values` [S, ring, K, E] are written.

    `position` [S] int64 is that of each slot's new row; `frequencies` [E / 2] float32 turn it into angles.
    """
    ring, kv_heads, head_dim = keys.shape[1:]
    heads = qkv.shape[1] // head_dim - 2 * kv_heads
    q, k, v = qkv.view(len(qkv), -1, head_dim).tensor_split((heads, heads + kv_heads), dim=1)
    now = position[slots]
    q, k = turned(q, now, frequencies), turned(k, now, frequencies)
    keys[slots, now % ring] = k
    values[slots, now % ring] = v
    held = now[:, None] - (now[:, None] - torch.arange(ring, device=now.device)) % ring
    seen = (held >= 0) & (held > now[:, None] - window)
    out = F.scaled_dot_product_attention(
        q.unsqueeze(2), keys[slots].transpose(1, 2), values[slots].transpose(1, 2),
        attn_mask=seen[:, None, None, :], enable_gqa=heads != kv_heads,
    )  # fmt: skip
    return out.reshape(len(qkv), heads * head_dim)


def turned(x: Tensor, position: Tensor, frequencies: Tensor) -> Tensor:
    """Heads `x` [B, heads, E] at `position` [B]. Angles are float32, their cosine as wide as the model, at least so."""
    wide = torch.promote_types(x.dtype, torch.float32)
    angles = (position[:, None].float() * frequencies).to(wide).unsqueeze(1)
    cos, sin = angles.cos(), angles.sin()
    first, second = x.to(wide).chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)
