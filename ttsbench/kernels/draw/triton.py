"""A draw as one kernel: a program owns a row, holds its whole vocabulary in registers and never sorts.

The k-th largest logit and the nucleus's border are searched over the bits of the scaled logits. Probabilities become
integers, so that every sum is exact, in whatever order threads add it: the cumulative distribution rises with the code,
a code of no probability is never drawn, and a row's code depends on nothing but the row.

Against the reference: float32 exponentials may differ in their last bit, which moves a boundary by some 1e-7. Equal
probabilities of *different* logits (both rounded to the same number) leave the nucleus by logit here and by id there;
equal logits leave it by id in both.

Shapes: B rows, S slots, Q codebooks, V codes, D width of the embedding table.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.draw.philox import LARGEST_UNIFORM
from ttsbench.kernels.draw.types import Drawn, DrawSettings, FirstCodeRules, Rows
from ttsbench.kernels.overlap import let_next_start, overlap, wait_for_previous

WARPS = 8
LARGEST_VOCABULARY = 8192
"""A row must fit into one program's registers, and a count into 16 bits."""

_LARGEST_UNIFORM = tl.constexpr(LARGEST_UNIFORM)
_INFINITE = tl.constexpr(0x7F800000)
"""Bits of infinity: the distance of a forbidden code."""
_ONE = tl.constexpr(2.0**40)
"""Weight of the likeliest code. The smallest that counts is 1, e**-27.7 of that."""


@triton.jit
def uniform_of(word):  # type: ignore[no-untyped-def]
    """`philox.uniform_of`: float32 from uint32."""
    return tl.minimum(((word >> 8).to(tl.float32) + 0.5) * (2.0**-24), _LARGEST_UNIFORM)


@triton.jit
def draw_uniform(seed, frame, book):  # type: ignore[no-untyped-def]
    """`philox.uniforms` for (seed, frame, book), float32."""
    zero = tl.full((), 0, tl.uint32)
    word, _, _, _ = tl.philox(seed, frame.to(tl.uint32), book.to(tl.uint32), zero, zero)
    return uniform_of(word)


@triton.jit  # type: ignore[untyped-decorator]
def nearest(distance, k, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Exclusive limit of the `k` smallest of `distance` (int32 [BLOCK], all >= 0), ties with the k-th included.

    Each turn cuts the interval in three; both counts travel in one sum. Exactly k below a cut is an early end.
    """
    low = tl.full((), 0, tl.int32)
    high = tl.full((), _INFINITE + 1, tl.int32)
    below_high = tl.full((), BLOCK, tl.int32)
    while (high - low > 1) & (below_high != k):
        third = tl.maximum((high - low) // 3, 1)
        first, second = low + third, low + 2 * third
        counts = tl.sum((distance < first).to(tl.int32) + ((distance < second).to(tl.int32) << 16), 0)
        below_first, below_second = counts & 0xFFFF, counts >> 16
        in_first, in_second = below_first >= k, below_second >= k
        low = tl.where(in_first, low, tl.where(in_second, first, second))
        high = tl.where(in_first, first, tl.where(in_second, second, high))
        below_high = tl.where(in_first, below_first, tl.where(in_second, below_second, below_high))
    return high


@triton.jit
def nucleus(distance, weight, top_p):  # type: ignore[no-untyped-def]
    """`weight` (int64 [BLOCK]) with the farthest codes set to 0 that together hold at most 1 - `top_p` of the sum."""
    budget = ((1 - top_p).to(tl.float64) * tl.sum(weight, 0).to(tl.float64)).to(tl.int64)
    low = tl.full((), 0, tl.int32)
    high = tl.full((), _INFINITE + 1, tl.int32)
    beyond = tl.full((), 0, tl.int64)
    while high - low > 1:  # what lies at or beyond `high` fits into the budget, at or beyond `low` it does not
        middle = low + (high - low) // 2
        held = tl.sum(tl.where(distance >= middle, weight, 0), 0)
        fits = held <= budget
        low = tl.where(fits, low, middle)
        high = tl.where(fits, middle, high)
        beyond = tl.where(fits, held, beyond)
    border = distance == low
    rank = tl.cumsum(border.to(tl.int32), 0)
    room = rank.to(tl.int64) * weight <= budget - beyond
    dropped = (distance >= high) | (border & room & (rank < tl.sum(border.to(tl.int32), 0)))
    return tl.where(dropped, 0, weight)


@triton.jit  # type: ignore[untyped-decorator]
def sampled(logits, largest, temperature, top_k, top_p, uniform, V, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """The code (int32) where the cumulative distribution of `logits` (float32 [BLOCK]) passes `uniform`."""
    scaled = tl.div_rn(logits - largest, temperature)
    # Nothing exceeds the largest, so a logit's rank is that of its distance, whose bits order like integers.
    distance = scaled.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    weight = (tl.exp(scaled) * _ONE).to(tl.int64)
    if (top_k > 0) & (top_k < V):
        weight = tl.where(distance < nearest(distance, top_k, BLOCK), weight, 0)
    if top_p < 1:
        weight = nucleus(distance, weight, top_p)
    cumulative = tl.cumsum(weight, 0)
    target = uniform.to(tl.float64) * tl.sum(weight, 0).to(tl.float64)
    return tl.minimum(tl.sum((cumulative.to(tl.float64) <= target).to(tl.int32), 0), V - 1)


@triton.jit(do_not_specialize=["book"])  # type: ignore[untyped-decorator]
def draw_kernel(  # type: ignore[no-untyped-def]
    book,
    logits_ptr,
    logits_stride,
    V,
    slots_ptr,
    frames_ptr,
    seeds_ptr,
    sample_ptr,
    temperature_ptr,
    top_k_ptr,
    top_p_ptr,
    penalty_ptr,
    min_frames_ptr,
    seen_ptr,
    seen_stride,
    eos,
    first_control_id,
    codes_ptr,
    codes_stride,
    finite_ptr,
    table_ptr,
    table_stride,
    out_ptr,
    out_stride,
    D,
    FIRST: tl.constexpr,
    COPY: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_D: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    let_next_start(OVERLAP)
    row = tl.program_id(0).to(tl.int64)
    # What the host has sent and no kernel changes: who draws, by which settings, with which number.
    slot = tl.load(slots_ptr + row)
    frame = tl.load(frames_ptr + row)
    samples = tl.load(sample_ptr + slot)
    temperature, top_k, top_p = tl.load(temperature_ptr + slot), tl.load(top_k_ptr + slot), tl.load(top_p_ptr + slot)
    uniform = draw_uniform(tl.load(seeds_ptr + slot), frame, book)
    wait_for_previous(OVERLAP)
    code_ids = tl.arange(0, BLOCK)
    exists = code_ids < V
    logits = tl.load(logits_ptr + row * logits_stride + code_ids, mask=exists, other=0.0).to(tl.float32)
    # Not "some is infinite": NaN fails every comparison.
    finite = tl.sum((tl.abs(logits) < float("inf")).to(tl.int32), 0) == BLOCK

    allowed = exists
    if FIRST:
        penalty = tl.load(penalty_ptr + slot)
        seen = tl.load(seen_ptr + slot * seen_stride + code_ids, mask=exists, other=0) != 0
        penalised = tl.where(logits > 0, tl.div_rn(logits, penalty), logits * penalty)
        logits = tl.where(seen, penalised, logits)
        too_early = frame < tl.load(min_frames_ptr + slot)
        is_eos = code_ids == eos
        allowed = exists & tl.where(is_eos, ~too_early, code_ids < first_control_id)
    logits = tl.where(allowed, logits, float("-inf"))

    largest = tl.max(logits, 0)
    code = tl.min(tl.where(logits == largest, code_ids, BLOCK), 0)
    if samples:
        code = sampled(logits, largest, temperature, top_k, top_p, uniform, V, BLOCK)
    code = tl.where(finite, code, 0).to(tl.int64)

    tl.store(codes_ptr + row * codes_stride + book, code)
    tl.store(finite_ptr + row, tl.load(finite_ptr + row) & finite)
    if FIRST:
        tl.store(seen_ptr + slot * seen_stride + code, True)
    if COPY:
        at = tl.arange(0, BLOCK_D)
        values = tl.load(table_ptr + code * table_stride + at, mask=at < D)
        tl.store(out_ptr + row * out_stride + at, values, mask=at < D)


def draw_first_code(
    logits: Tensor,
    rows: Rows,
    settings: DrawSettings,
    rules: FirstCodeRules,
    drawn: Drawn,
    table: Tensor,
    out: Tensor,
) -> None:
    """See `ttsbench.kernels.draw`."""
    _launch(0, logits, rows, settings, rules, drawn, table, out)


def draw_code(
    book: int,
    logits: Tensor,
    rows: Rows,
    settings: DrawSettings,
    drawn: Drawn,
    table: Tensor | None,
    out: Tensor | None,
) -> None:
    """See `ttsbench.kernels.draw`."""
    _launch(book, logits, rows, settings, None, drawn, table, out)


def _launch(
    book: int,
    logits: Tensor,
    rows: Rows,
    settings: DrawSettings,
    rules: FirstCodeRules | None,
    drawn: Drawn,
    table: Tensor | None,
    out: Tensor | None,
) -> None:
    B, V = logits.shape
    _check_rows(logits, rows, settings, drawn)
    if rules is not None:
        _check_rules(V, rules)
    if table is not None and out is not None:
        assert table.dtype is out.dtype
        assert table.stride(1) == out.stride(1) == 1
        assert len(table) >= V
        assert out.shape == (B, table.shape[1])
    draw_kernel[(B,)](
        book,
        logits,
        logits.stride(0),
        V,
        rows.slots,
        rows.frames,
        rows.seeds,
        settings.sample,
        settings.temperature,
        settings.top_k,
        settings.top_p,
        rules.penalty if rules else None,
        rules.min_frames if rules else None,
        rules.seen if rules else None,
        rules.seen.stride(0) if rules else 0,
        rules.eos if rules else 0,
        rules.first_control_id if rules else 0,
        drawn.codes,
        drawn.codes.stride(0),
        drawn.finite,
        table,
        table.stride(0) if table is not None else 0,
        out,
        out.stride(0) if out is not None else 0,
        out.shape[1] if out is not None else 0,
        FIRST=rules is not None,
        COPY=out is not None,
        BLOCK=triton.next_power_of_2(V),
        BLOCK_D=triton.next_power_of_2(out.shape[1]) if out is not None else 1,
        num_warps=WARPS,
        # A fused multiply-add would round once where the reference rounds twice, and break or make ties at the k-th.
        enable_fp_fusion=False,
        **overlap(logits),
    )


def _check_rows(logits: Tensor, rows: Rows, settings: DrawSettings, drawn: Drawn) -> None:
    """The kernel believes in dtypes and unit strides; only rows of logits and codes may be apart."""
    B, V = logits.shape
    assert V <= LARGEST_VOCABULARY
    assert logits.dtype in (torch.float32, torch.bfloat16)
    assert logits.stride(1) == drawn.codes.stride(1) == 1
    assert rows.slots.shape == rows.frames.shape == drawn.finite.shape == (B,)
    assert len(drawn.codes) == B
    _check_dtypes((drawn.codes, rows.slots, rows.frames, rows.seeds), torch.int64)
    _check_dtypes((settings.temperature, settings.top_p), torch.float32)
    _check_dtypes((settings.sample, drawn.finite), torch.bool)
    _check_dtypes((settings.top_k,), torch.int32)
    one_value_each = (*vars(settings).values(), rows.slots, rows.frames, rows.seeds, drawn.finite)
    assert all(column.is_contiguous() for column in one_value_each)


def _check_rules(V: int, rules: FirstCodeRules) -> None:
    assert rules.seen.shape[1] == V
    assert rules.seen.stride(1) == 1
    assert rules.penalty.is_contiguous()
    assert rules.min_frames.is_contiguous()
    _check_dtypes((rules.seen,), torch.bool)
    _check_dtypes((rules.penalty,), torch.float32)
    _check_dtypes((rules.min_frames,), torch.int32)


def _check_dtypes(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> None:
    assert all(tensor.dtype is dtype for tensor in tensors), (dtype, [tensor.dtype for tensor in tensors])
