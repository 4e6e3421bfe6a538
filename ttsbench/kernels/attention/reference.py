"""Every row attends to the positions of its own slot up to its own, found through the slot's block table.

Query and key heads are RMS-normalised, weighted and rotated (rotate-half RoPE) first; values are taken as they are. A
position p of slot s lives at `tables[s, p // block] * block + p % block` of the cache.

Shapes: N packed rows, H query heads, K key-value heads, E head width, S slots, P cache positions, L rotary positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Heads:
    """Geometry of one layer's heads, their norms, and the rotary tables of the stack."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    eps: float
    norm: Tensor
    """Norm weights [H + K, E]: the queries' for each of their heads, then the keys'."""
    cos: Tensor
    """[L, E / 2], in the dtype of the activations."""
    sin: Tensor
    """[L, E / 2]"""


@dataclass(frozen=True)
class KVRows:
    """Where each packed row stands. Integer tensors; `kv_slots` is the cache position that a row writes."""

    slots: Tensor
    """int64 [N]"""
    positions: Tensor
    """int64 [N]"""
    kv_slots: Tensor
    """int64 [N]"""
    tables: Tensor
    """int32 [S, blocks per slot]"""
    block_size: int


def split_heads(qkv: Tensor, heads: Heads, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Normalised and rotated q [N, H, E] and k [N, K, E], and v [N, K, E]; `cos`, `sin` [N, 1, E / 2] of the rows."""
    turning = heads.num_heads + heads.num_kv_heads
    packed = qkv.view(len(qkv), turning + heads.num_kv_heads, heads.head_dim)
    wide = packed[:, :turning].to(torch.promote_types(qkv.dtype, torch.float32))
    normed = F.rms_norm(wide, (heads.head_dim,), eps=heads.eps).to(qkv.dtype) * heads.norm
    first, second = normed.chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned[:, : heads.num_heads], turned[:, heads.num_heads :], packed[:, turning:]


def paged_attention(qkv: Tensor, heads: Heads, rows: KVRows, keys: Tensor, values: Tensor, query_len: int) -> Tensor:
    """[N, H * E], row by row; `keys`, `values` [P, K, E] receive the rows' own keys and values first."""
    cos, sin = heads.cos[rows.positions, None], heads.sin[rows.positions, None]
    q, k, v = split_heads(qkv, heads, cos, sin)
    keys[rows.kv_slots] = k
    values[rows.kv_slots] = v
    out = torch.empty_like(q)
    for row, (slot, position) in enumerate(zip(rows.slots.tolist(), rows.positions.tolist(), strict=True)):
        seen = torch.arange(position + 1, device=qkv.device)
        where = rows.tables[slot, seen // rows.block_size].long() * rows.block_size + seen % rows.block_size
        grouped = q[row].view(heads.num_kv_heads, -1, heads.head_dim)
        mine, theirs = keys[where].transpose(0, 1), values[where].transpose(0, 1)
        out[row] = F.scaled_dot_product_attention(grouped, mine, theirs).view_as(out[row])
    return out.flatten(1)
