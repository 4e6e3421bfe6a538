"""One program per packed row and key-value head: the row's queries of that head against the keys before it.

At query length 1 (FUSED) the row's own key and value come from registers and are written on the way, so nothing waits
for another row. In a step that mixes prompts in, rows read each other's keys: a first launch (STORE) writes them all, a
second (ATTEND) reads. Both are compiled from one source. Products run on the tensor cores, for which the queries of a
head group are padded to 16 rows; softmax is online and in float32.

Shapes: N packed rows, H query heads, K key-value heads, E head width, HALF = E / 2, G = H / K.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.attention.reference import Heads, KVRows
from ttsbench.kernels.invariant import is_fixed, planned
from ttsbench.kernels.overlap import fetch_lines, let_next_start, overlap, wait_for_previous

FUSED, STORE, ATTEND = 0, 1, 2


@triton.jit  # type: ignore[untyped-decorator]
def _turn(first, second, low, high, cos, sin, eps, HALF: tl.constexpr):  # type: ignore[no-untyped-def]
    """Norm, weight and rotation of heads given as halves [.., HALF_BLOCK], rounded to their dtype."""
    dtype = first.dtype
    a, b = first.to(tl.float32), second.to(tl.float32)
    scale = tl.rsqrt((tl.sum(a * a, 1) + tl.sum(b * b, 1)) / (2 * HALF) + eps)[:, None]
    a = ((a * scale).to(dtype) * low).to(tl.float32)
    b = ((b * scale).to(dtype) * high).to(tl.float32)
    return (a * cos - b * sin).to(dtype), (b * cos + a * sin).to(dtype)


@triton.jit  # type: ignore[untyped-decorator]
def _places(table_ptr, at, held, head, block_size, num_kv_heads, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where keys and values of positions `at` stand in the cache, for one head."""
    page = tl.load(table_ptr + at // block_size, mask=held, other=0).to(tl.int64)
    return ((page * block_size + at % block_size) * num_kv_heads + head) * WIDTH


@triton.jit  # type: ignore[untyped-decorator]
def _fetch_past(  # type: ignore[no-untyped-def]
    keys_ptr, values_ptr, table_ptr, position, head, block_size, num_kv_heads, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Begin to bring the keys and values of all positions before `position` into the L2 cache."""
    line = tl.arange(0, 4) * 64 % WIDTH  # 128 bytes of a narrow type; asked for twice, a line comes once
    for start in range(0, position, BLOCK):
        at = start + tl.arange(0, BLOCK)
        held = at < position
        where = _places(table_ptr, at, held, head, block_size, num_kv_heads, WIDTH)[:, None] + line[None, :]
        wanted = tl.broadcast_to(held[:, None], where.shape)
        fetch_lines(keys_ptr + where, wanted)
        fetch_lines(values_ptr + where, wanted)


@triton.jit  # type: ignore[untyped-decorator]
def paged_attention_kernel(  # type: ignore[no-untyped-def]
    qkv_ptr, norm_ptr, cos_ptr, sin_ptr, slots_ptr, positions_ptr, kv_slots_ptr, tables_ptr,
    keys_ptr, values_ptr, out_ptr, num_heads, num_kv_heads, table_stride, block_size, scale, eps,
    G: tl.constexpr, GROUP: tl.constexpr, HALF: tl.constexpr, HALF_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
    MODE: tl.constexpr, FETCH: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    E: tl.constexpr = 2 * HALF
    d = tl.arange(0, HALF_BLOCK)
    inside = d < HALF
    # Where the row stands comes from the host, tables and norms from the checkpoint: no kernel writes them meanwhile.
    position = tl.load(positions_ptr + row)
    table_ptr = tables_ptr + tl.load(slots_ptr + row) * table_stride
    cos = tl.load(cos_ptr + position * HALF + d, mask=inside, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(sin_ptr + position * HALF + d, mask=inside, other=0.0).to(tl.float32)[None, :]
    packed_ptr = qkv_ptr + row * (num_heads + 2 * num_kv_heads) * E
    if MODE != 2:
        k_norm_at = norm_ptr + (num_heads + head) * E + d[None, :]
        k_norm_low = tl.load(k_norm_at, mask=inside[None, :], other=0.0)
        k_norm_high = tl.load(k_norm_at + HALF, mask=inside[None, :], other=0.0)
        mine = (tl.load(kv_slots_ptr + row) * num_kv_heads + head) * E + d[None, :]
    if MODE != 1:
        g = tl.arange(0, GROUP)
        asked = (g < G)[:, None] & inside[None, :]
        q_norm_at = norm_ptr + (head * G + g)[:, None] * E + d[None, :]
        q_norm_low = tl.load(q_norm_at, mask=asked, other=0.0)
        q_norm_high = tl.load(q_norm_at + HALF, mask=asked, other=0.0)
        seen = position if MODE == 0 else position + 1
        at = tl.arange(0, BLOCK)
        where = _places(table_ptr, at, at < seen, head, block_size, num_kv_heads, E)
        if FETCH:
            _fetch_past(keys_ptr, values_ptr, table_ptr, position, head, block_size, num_kv_heads, E, BLOCK)
    wait_for_previous(OVERLAP)
    let_next_start(OVERLAP)

    if MODE != 2:
        k_at = packed_ptr + (num_heads + head) * E + d[None, :]
        k_low = tl.load(k_at, mask=inside[None, :], other=0.0)
        k_high = tl.load(k_at + HALF, mask=inside[None, :], other=0.0)
        own_low, own_high = _turn(k_low, k_high, k_norm_low, k_norm_high, cos, sin, eps, HALF)
        v_at = packed_ptr + (num_heads + num_kv_heads + head) * E + d[None, :]
        v_low = tl.load(v_at, mask=inside[None, :], other=0.0)
        v_high = tl.load(v_at + HALF, mask=inside[None, :], other=0.0)
        tl.store(keys_ptr + mine, own_low, mask=inside[None, :])
        tl.store(keys_ptr + mine + HALF, own_high, mask=inside[None, :])
        tl.store(values_ptr + mine, v_low, mask=inside[None, :])
        tl.store(values_ptr + mine + HALF, v_high, mask=inside[None, :])

    if MODE != 1:
        q_at = packed_ptr + (head * G + g)[:, None] * E + d[None, :]
        q_low = tl.load(q_at, mask=asked, other=0.0)
        q_high = tl.load(q_at + HALF, mask=asked, other=0.0)
        q_low, q_high = _turn(q_low, q_high, q_norm_low, q_norm_high, cos, sin, eps, HALF)
        if MODE == 0:
            own = q_low.to(tl.float32) * own_low.to(tl.float32) + q_high.to(tl.float32) * own_high.to(tl.float32)
            largest = tl.sum(own, 1) * scale
            total = tl.full([GROUP], 1.0, tl.float32)
            out_low = tl.zeros([GROUP, HALF_BLOCK], tl.float32) + v_low.to(tl.float32)
            out_high = tl.zeros([GROUP, HALF_BLOCK], tl.float32) + v_high.to(tl.float32)
        else:
            largest = tl.full([GROUP], float("-inf"), tl.float32)
            total = tl.zeros([GROUP], tl.float32)
            out_low = tl.zeros([GROUP, HALF_BLOCK], tl.float32)
            out_high = tl.zeros([GROUP, HALF_BLOCK], tl.float32)
        for start in range(0, seen, BLOCK):
            held = start + tl.arange(0, BLOCK) < seen
            address = where[:, None] + d[None, :]
            readable = held[:, None] & inside[None, :]
            keys_low = tl.load(keys_ptr + address, mask=readable, other=0.0)
            keys_high = tl.load(keys_ptr + address + HALF, mask=readable, other=0.0)
            values_low = tl.load(values_ptr + address, mask=readable, other=0.0)
            values_high = tl.load(values_ptr + address + HALF, mask=readable, other=0.0)
            after = start + BLOCK + tl.arange(0, BLOCK)
            where = _places(table_ptr, after, after < seen, head, block_size, num_kv_heads, E)
            scores = tl.dot(q_low, tl.trans(keys_low), input_precision="ieee")
            scores = tl.dot(q_high, tl.trans(keys_high), scores, input_precision="ieee") * scale
            scores = tl.where(held[None, :], scores, float("-inf"))
            new_largest = tl.maximum(largest, tl.max(scores, 1))
            shrink = tl.exp(largest - new_largest)
            weights = tl.exp(scores - new_largest[:, None])
            total = total * shrink + tl.sum(weights, 1)
            rounded = weights.to(values_low.dtype)
            out_low = tl.dot(rounded, values_low, out_low * shrink[:, None], input_precision="ieee")
            out_high = tl.dot(rounded, values_high, out_high * shrink[:, None], input_precision="ieee")
            largest = new_largest
        out_at = out_ptr + row * num_heads * E + (head * G + g)[:, None] * E + d[None, :]
        tl.store(out_at, (out_low / total[:, None]).to(out_ptr.dtype.element_ty), mask=asked)
        tl.store(out_at + HALF, (out_high / total[:, None]).to(out_ptr.dtype.element_ty), mask=asked)


def paged_attention(qkv: Tensor, heads: Heads, rows: KVRows, keys: Tensor, values: Tensor, query_len: int) -> Tensor:
    """[N, H * E]; one launch at query length 1, else two."""
    count, width = len(qkv), heads.head_dim
    assert qkv.is_contiguous()
    assert qkv.shape[1] == (heads.num_heads + 2 * heads.num_kv_heads) * width
    assert keys.is_contiguous()
    assert values.is_contiguous()
    assert keys.shape == values.shape
    assert keys.data_ptr() != values.data_ptr(), "keys and values share their memory"
    assert keys.shape[1:] == (heads.num_kv_heads, width)
    assert keys.dtype == qkv.dtype == heads.cos.dtype
    assert heads.norm.is_contiguous()
    assert heads.norm.shape == (heads.num_heads + heads.num_kv_heads, width)
    assert heads.cos.is_contiguous()
    assert heads.sin.is_contiguous()
    assert rows.tables.stride(1) == 1
    out = torch.empty(count, heads.num_heads * width, device=qkv.device, dtype=qkv.dtype)
    longest = rows.tables.shape[1] * rows.block_size
    block, warps = choose(planned(count), longest)
    launch = overlap(qkv)
    group, half = heads.num_heads // heads.num_kv_heads, width // 2
    # Fused, a row's own key comes first; a row of a step that has prompts too would find it last.
    for mode in (FUSED,) if query_len == 1 and not is_fixed() else (STORE, ATTEND):
        paged_attention_kernel[(count, heads.num_kv_heads)](
            qkv, heads.norm, heads.cos, heads.sin, rows.slots, rows.positions, rows.kv_slots,
            rows.tables, keys, values, out, heads.num_heads, heads.num_kv_heads, rows.tables.stride(0),
            rows.block_size, width**-0.5, heads.eps, G=group, GROUP=max(16, triton.next_power_of_2(group)),
            HALF=half, HALF_BLOCK=max(16, triton.next_power_of_2(half)), BLOCK=block, MODE=mode,
            FETCH=launch["OVERLAP"] and mode == FUSED and longest > block and qkv.dtype == torch.bfloat16,
            num_warps=warps, **launch,
        )  # fmt: skip
    return out


def choose(rows: int, longest: int) -> tuple[int, int]:
    """(keys of one iteration, warps) of a program, for `rows` packed rows of at most `longest` positions.

    Measured on an H200 (docs/measurements.md): few rows want the widest program, many rows the one that leaves room for
    more of its kind. The code predictor's sixteen positions are one iteration.
    """
    if longest <= 16:
        return (16, 4) if rows < 24 else (16, 1)
    return (64, 4) if rows <= 32 else (32, 1) if rows <= 64 else (16, 1)
