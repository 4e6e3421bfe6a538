"""A program owns one query head of one stream and has its whole window in registers.

Old keys and values, and the angles, need nothing of the kernel before: they are on their way while it still ends. Their
writer is the last frame, which has ended before this frame's first kernel lets another start. The new key and value
come from registers, so a program needs nothing that another writes; the first program of a group stores them. Their
ring row is that of position p - ring, which no query sees any more.

Shapes: B rows, H query heads, K key-value heads, E head width, S slots.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.overlap import let_next_start, overlap, wait_for_previous
from ttsbench.kernels.sine import approximates, cosine, sine, within_a_turn


@triton.jit  # type: ignore[untyped-decorator]
def turned(at, e, partner, cos, sin, known, kind: tl.constexpr):  # type: ignore[no-untyped-def]
    """Elements `e` of the head at `at`, turned against their `partner`, rounded as if they had been stored."""
    head = tl.load(at + e, mask=known, other=0.0).to(tl.float32)
    other = tl.load(at + partner, mask=known, other=0.0).to(tl.float32)
    return (head * cos + other * sin).to(kind)


@triton.jit  # type: ignore[untyped-decorator]
def old_rows(first, now, key_ptr, value_ptr, start, stride, ring, e, known, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Keys and values [BLOCK, E] of the positions from `first` on, and which of them lie before `now`."""
    old = first + tl.arange(0, BLOCK)
    seen = (old >= 0) & (old < now)
    at = start + (tl.where(seen, old, 0) % ring * stride)[:, None] + e[None, :]
    inside = seen[:, None] & known[None, :]
    return tl.load(key_ptr + at, mask=inside, other=0.0), tl.load(value_ptr + at, mask=inside, other=0.0), seen


@triton.jit
def scored(q, keys, seen):  # type: ignore[no-untyped-def]
    return tl.where(seen, tl.sum(keys.to(tl.float32) * q[None, :], 1), float("-inf"))


@triton.jit(do_not_specialize=["ring", "window"])  # type: ignore[untyped-decorator]
def ring_attention_kernel(  # type: ignore[no-untyped-def]
    qkv_ptr, key_ptr, value_ptr, slot_ptr, position_ptr, frequency_ptr, out_ptr, ring, window, scale,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK: tl.constexpr,
    EXTRA: tl.constexpr, APPROXIMATE: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """HALF = E / 2 elements turn against the other half. BLOCK + EXTRA >= window - 1 old positions are read at once."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    kv_head = head // (HEADS // KV_HEADS)
    slot = tl.load(slot_ptr + row)
    now = tl.load(position_ptr + slot).to(tl.int32)  # 64-bit remainders are slow
    e = tl.arange(0, BLOCK_E)
    known = e < 2 * HALF

    stride = KV_HEADS * 2 * HALF
    start = slot * ring * stride + kv_head * 2 * HALF
    oldest = now - window + 1
    keys, values, seen = old_rows(oldest, now, key_ptr, value_ptr, start, stride, ring, e, known, BLOCK)
    if EXTRA:
        more_keys, more_values, more_seen = old_rows(
            oldest + BLOCK, now, key_ptr, value_ptr, start, stride, ring, e, known, EXTRA
        )

    first = e < HALF
    partner = tl.where(first, e + HALF, e - HALF)
    angle = now.to(tl.float32) * tl.load(frequency_ptr + tl.minimum(e, partner), mask=known, other=0.0)
    angle = within_a_turn(angle)
    cos, sin = cosine(angle, APPROXIMATE), sine(tl.where(first, -angle, angle), APPROXIMATE)

    wait_for_previous(OVERLAP)
    heads = qkv_ptr + row * (HEADS + 2 * KV_HEADS) * 2 * HALF
    kind: tl.constexpr = out_ptr.dtype.element_ty
    q = turned(heads + head * 2 * HALF, e, partner, cos, sin, known, kind).to(tl.float32) * scale
    key = turned(heads + (HEADS + kv_head) * 2 * HALF, e, partner, cos, sin, known, kind)
    value = tl.load(heads + (HEADS + KV_HEADS + kv_head) * 2 * HALF + e, mask=known, other=0.0)

    own = tl.sum(q * key.to(tl.float32), 0)
    scores = scored(q, keys, seen)
    largest = tl.maximum(own, tl.max(scores, 0))
    if EXTRA:
        more_scores = scored(q, more_keys, more_seen)
        largest = tl.maximum(largest, tl.max(more_scores, 0))
    weights, own = tl.exp(scores - largest), tl.exp(own - largest)
    out = own * value.to(tl.float32) + tl.sum(weights[:, None] * values.to(tl.float32), 0)
    total = own + tl.sum(weights, 0)
    if EXTRA:
        weights = tl.exp(more_scores - largest)
        out += tl.sum(weights[:, None] * more_values.to(tl.float32), 0)
        total += tl.sum(weights, 0)
    out = out / total
    tl.store(out_ptr + (row * HEADS + head) * 2 * HALF + e, out.to(kind), mask=known)
    if head % (HEADS // KV_HEADS) == 0:
        new = start + now % ring * stride + e
        tl.store(key_ptr + new, key, mask=known)
        tl.store(value_ptr + new, value, mask=known)
    let_next_start(OVERLAP)  # said earlier, it makes the compiler hold half as many registers again


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
    block = max(triton.next_power_of_2(window) // 2, 1)  # of 71 old positions 64, and 8 more: 128 take more registers
    more = max(window - 1 - block, 0)
    ring_attention_kernel[(rows, heads)](
        qkv, keys, values, slots, position, frequencies, out, ring, window, head_dim**-0.5,
        HEADS=heads, KV_HEADS=kv_heads, HALF=head_dim // 2, BLOCK_E=triton.next_power_of_2(head_dim),
        BLOCK=block, EXTRA=triton.next_power_of_2(more) if more else 0,
        APPROXIMATE=approximates(qkv), num_warps=2, **overlap(qkv),
    )  # fmt: skip
    return out
