"""A program owns one query head of one stream: it turns query and key, then reads the window in blocks of positions.

The new key and value come from registers, so a program needs nothing that another writes; the first program of a group
stores them. Their ring row is that of position p - ring, which no query sees any more. Softmax is online, in float32,
and starts from the new key, so there is no row without one.

Shapes: B rows, H query heads, K key-value heads, E head width, S slots.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.overlap import follow, overlapping

BLOCK = 32
"""Positions read at a time: the window of 72 is 71 old ones, three blocks."""


@triton.jit(do_not_specialize=["ring", "window"])  # type: ignore[untyped-decorator]
def ring_attention_kernel(  # type: ignore[no-untyped-def]
    qkv_ptr, key_ptr, value_ptr, slot_ptr, position_ptr, frequency_ptr, out_ptr, ring, window, scale,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    """The halves of a head that rotate against each other are kept apart: two vectors of HALF = E / 2, padded."""
    follow(OVERLAP)
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    kv_head = head // (HEADS // KV_HEADS)
    slot = tl.load(slot_ptr + row)
    now = tl.load(position_ptr + slot).to(tl.int32)  # 64-bit remainders are slow
    e = tl.arange(0, BLOCK_H)
    known = e < HALF

    angle = now.to(tl.float32) * tl.load(frequency_ptr + e, mask=known, other=0.0)
    cos, sin = tl.cos(angle), tl.sin(angle)
    heads = qkv_ptr + row * (HEADS + 2 * KV_HEADS) * 2 * HALF
    q_at, k_at = heads + head * 2 * HALF, heads + (HEADS + kv_head) * 2 * HALF
    v_at = k_at + KV_HEADS * 2 * HALF
    kind = out_ptr.dtype.element_ty  # turned and rounded as if they had been stored
    a, b = tl.load(q_at + e, mask=known, other=0.0), tl.load(q_at + HALF + e, mask=known, other=0.0)
    a, b = a.to(tl.float32), b.to(tl.float32)
    q_a, q_b = (a * cos - b * sin).to(kind).to(tl.float32), (b * cos + a * sin).to(kind).to(tl.float32)
    a, b = tl.load(k_at + e, mask=known, other=0.0), tl.load(k_at + HALF + e, mask=known, other=0.0)
    a, b = a.to(tl.float32), b.to(tl.float32)
    k_a, k_b = (a * cos - b * sin).to(kind), (b * cos + a * sin).to(kind)
    v_a, v_b = tl.load(v_at + e, mask=known, other=0.0), tl.load(v_at + HALF + e, mask=known, other=0.0)

    stride = KV_HEADS * 2 * HALF
    start = slot * ring * stride + kv_head * 2 * HALF
    if head % (HEADS // KV_HEADS) == 0:
        new = start + now % ring * stride + e
        tl.store(key_ptr + new, k_a, mask=known)
        tl.store(key_ptr + new + HALF, k_b, mask=known)
        tl.store(value_ptr + new, v_a, mask=known)
        tl.store(value_ptr + new + HALF, v_b, mask=known)

    q_a, q_b = q_a * scale, q_b * scale
    largest = tl.sum(q_a * k_a.to(tl.float32) + q_b * k_b.to(tl.float32), 0)
    total = largest * 0.0 + 1.0
    out_a, out_b = v_a.to(tl.float32), v_b.to(tl.float32)
    oldest = tl.maximum(now - window + 1, 0)
    for first in range(oldest, now, BLOCK):
        seen = first + tl.arange(0, BLOCK)
        inside = (seen < now)[:, None] & known[None, :]
        at = start + (seen % ring * stride)[:, None] + e[None, :]
        keys_a = tl.load(key_ptr + at, mask=inside, other=0.0).to(tl.float32)
        keys_b = tl.load(key_ptr + at + HALF, mask=inside, other=0.0).to(tl.float32)
        values_a = tl.load(value_ptr + at, mask=inside, other=0.0).to(tl.float32)
        values_b = tl.load(value_ptr + at + HALF, mask=inside, other=0.0).to(tl.float32)
        scores = tl.sum(keys_a * q_a[None, :] + keys_b * q_b[None, :], 1)
        scores = tl.where(seen < now, scores, float("-inf"))
        peak = tl.maximum(largest, tl.max(scores, 0))
        weights, kept = tl.exp(scores - peak), tl.exp(largest - peak)
        total = total * kept + tl.sum(weights, 0)
        out_a = out_a * kept + tl.sum(weights[:, None] * values_a, 0)
        out_b = out_b * kept + tl.sum(weights[:, None] * values_b, 0)
        largest = peak

    out_at = out_ptr + (row * HEADS + head) * 2 * HALF + e
    tl.store(out_at, (out_a / total).to(kind), mask=known)
    tl.store(out_at + HALF, (out_b / total).to(kind), mask=known)


def ring_attention(
    qkv: Tensor, keys: Tensor, values: Tensor, slots: Tensor, position: Tensor, frequencies: Tensor, window: int
) -> Tensor:
    """As the reference. Rows that share a slot leave its ring with any of their keys and disturb nothing else."""
    ring, kv_heads, head_dim = keys.shape[1:]
    rows, heads = len(qkv), qkv.shape[1] // head_dim - 2 * kv_heads
    assert qkv.is_contiguous() and keys.is_contiguous() and values.is_contiguous()
    assert keys.dtype == values.dtype == qkv.dtype and keys.shape == values.shape and heads % kv_heads == 0
    assert slots.dtype == position.dtype == torch.int64 and slots.shape == (rows,)
    assert frequencies.dtype == torch.float32 and frequencies.shape == (head_dim // 2,) and window <= ring
    out = torch.empty(rows, heads * head_dim, device=qkv.device, dtype=qkv.dtype)
    ring_attention_kernel[(rows, heads)](
        qkv, keys, values, slots, position, frequencies, out, ring, window, head_dim**-0.5,
        HEADS=heads, KV_HEADS=kv_heads, HALF=head_dim // 2, BLOCK_H=triton.next_power_of_2(head_dim // 2),
        BLOCK=BLOCK, num_warps=2, **overlapping(qkv.device),
    )  # fmt: skip
    return out
