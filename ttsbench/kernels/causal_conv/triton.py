"""The convolution as one matrix product whose left rows are gathered where they lie: in the frame or in the tails.

A step of the sum takes BLOCK_K terms of the flat [taps * C]; term k is channel k % C of tap k // C, so a row of the
left operand is one pointer per term and position, chosen between the frame and the slot's tail, never masked along
channels. Channels are contiguous on both sides, and 16-byte loads stay whole since C is a multiple of 16 wherever it
matters. The programs of one row tile are neighbours: they read the same inputs while these are in the L2 cache.

A tile of BLOCK_N + EXTRA_N columns keeps two accumulators over one left operand, as `tl.arange` knows only powers of
two and the layers' widths are 3 * 2^i. With `parts` programs per tile each writes its part of the sum; the last to
come adds the parts in order, so the result does not depend on who that is.

Shapes: B rows, n positions, C channels, N columns, S slots, T tail rows; M = B * n, K = taps * C.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.causal_conv.packed import ConvWeights, SnakeWeights
from ttsbench.kernels.causal_conv.tiles import Tile, choose
from ttsbench.kernels.overlap import follow, overlap


@triton.jit
def sine_squared(x):  # type: ignore[no-untyped-def]
    """sin(x)^2 to about 1e-6 for |x| < 1e4 or so, in 14 operations; the library's sine takes three times as many.

    Its period is pi: x - round(x / pi) * pi lies within pi / 2, where a polynomial of degree 11 is exact to float32.
    Adding and subtracting 1.5 * 2^23 rounds. Pi is subtracted in three parts, the first two short enough that their
    product with the whole number is exact.
    """
    turns = (x * 0.3183098861837907 + 12582912.0) - 12582912.0
    x = x - turns * 3.140625
    x = x - turns * 0.0009670257568359375
    x = x - turns * 6.27832957e-07
    s = x * x
    p = -2.5052108e-08 * s + 2.7557319e-06
    p = p * s - 1.9841270e-04
    p = p * s + 8.3333333e-03
    p = p * s - 1.6666667e-01
    sine = x + x * s * p
    return sine * sine


@triton.jit  # type: ignore[untyped-decorator]
def finish(  # type: ignore[no-untyped-def]
    sums, row, column, inside, width,
    bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr,
    HAS_RESIDUAL: tl.constexpr, WRITE_PLAIN: tl.constexpr, WRITE_ACTIVE: tl.constexpr,
):  # fmt: skip
    """Bias, residual and Snake of the sums of rows `row` and columns `column`, all in float32."""
    at = row[:, None] * width + column[None, :]
    here = column < width
    sums += tl.load(bias_ptr + column, mask=here, other=0.0)[None, :]
    if HAS_RESIDUAL:
        sums += tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if WRITE_PLAIN:
        tl.store(plain_ptr + at, sums.to(plain_ptr.dtype.element_ty), mask=inside)
    if WRITE_ACTIVE:
        frequency = tl.load(frequency_ptr + column, mask=here, other=0.0)[None, :]
        gain = tl.load(gain_ptr + column, mask=here, other=0.0)[None, :]
        sums += gain * sine_squared(frequency * sums)
        tl.store(active_ptr + at, sums.to(active_ptr.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def sum_parts(part_ptr, at, inside, size, parts):  # type: ignore[no-untyped-def]
    """Past the L1 cache, which does not see what other multiprocessors have written."""
    sums = tl.load(part_ptr + at, mask=inside, other=0.0, cache_modifier=".cg")
    for part in range(1, parts):
        sums += tl.load(part_ptr + part * size + at, mask=inside, other=0.0, cache_modifier=".cg")
    return sums


@triton.jit  # type: ignore[untyped-decorator]
def product(  # type: ignore[no-untyped-def]
    x_rows, tail_rows, position, weight_ptr, column, extra_column, first_step, end_step,
    channels, width, taps, dilation,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EXTRA_N: tl.constexpr, BLOCK_K: tl.constexpr,
    HAS_TAIL: tl.constexpr, EVEN_K: tl.constexpr, EVEN_N: tl.constexpr, WHOLE_TAPS: tl.constexpr,
    VECTOR: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums of `column` and of `extra_column` (empty: the first again) over the steps from `first_step` on.

    `x_rows` and `tail_rows` point to what an output of `position` reads of the frame and of the tail at no offset.
    """
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    extra_sums = tl.zeros((BLOCK_M, EXTRA_N if EXTRA_N else BLOCK_N), dtype=tl.float32)
    terms = taps * channels
    for step in range(first_step, end_step):
        if WHOLE_TAPS:
            tap = step % taps
            channel = step // taps * BLOCK_K + tl.arange(0, BLOCK_K)
            k = tap * channels + channel
            back = (taps - 1 - tap) * dilation
            start = tl.where(position >= back, x_rows, tail_rows) if HAS_TAIL else x_rows
            x_at = start[:, None] + (channel - back * channels)[None, :]
        else:
            k = step * BLOCK_K + tl.arange(0, BLOCK_K)
            tap = k // channels
            back = (taps - 1 - tap) * dilation
            offset = k - (tap + back) * channels
            if HAS_TAIL:
                start = tl.where(position[:, None] >= back[None, :], x_rows[:, None], tail_rows[:, None])
                x_at = start + offset[None, :]
            else:
                x_at = x_rows[:, None] + offset[None, :]
        if VECTOR > 0:
            x_at = tl.max_contiguous(x_at, [1, VECTOR])
        w_at = weight_ptr + k.to(tl.int64)[:, None] * width
        x = tl.load(x_at) if EVEN_K else tl.load(x_at, mask=(k < terms)[None, :], other=0.0)
        if EVEN_K and EVEN_N:
            w = tl.load(w_at + column[None, :])
        else:
            w = tl.load(w_at + column[None, :], mask=(k < terms)[:, None] & (column < width)[None, :], other=0.0)
        sums = tl.dot(x, w, sums, input_precision=PRECISION)
        if EXTRA_N > 0:
            if EVEN_K and EVEN_N:
                v = tl.load(w_at + extra_column[None, :])
            else:
                known = (k < terms)[:, None] & (extra_column < width)[None, :]
                v = tl.load(w_at + extra_column[None, :], mask=known, other=0.0)
            extra_sums = tl.dot(x, v, extra_sums, input_precision=PRECISION)
    return sums, extra_sums


@triton.jit  # type: ignore[untyped-decorator]
def past(tail_ptr, slot_ptr, stream, position, tail, channels, x_rows, HAS_TAIL: tl.constexpr):  # type: ignore[no-untyped-def]
    """The `tail_rows` of `product`."""
    if HAS_TAIL:
        return tail_ptr + (tl.load(slot_ptr + stream) * tail + tail + position) * channels
    else:
        return x_rows


@triton.jit(do_not_specialize=["rows", "length", "taps", "dilation", "tail", "parts"])  # type: ignore[untyped-decorator]
def causal_conv_kernel(  # type: ignore[no-untyped-def]
    x_ptr, tail_ptr, slot_ptr, weight_ptr, bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr,
    part_ptr, ticket_ptr, rows, length, channels, width, taps, dilation, tail, parts,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EXTRA_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
    HAS_TAIL: tl.constexpr, HAS_RESIDUAL: tl.constexpr, WRITE_PLAIN: tl.constexpr, WRITE_ACTIVE: tl.constexpr,
    EVEN_K: tl.constexpr, EVEN_N: tl.constexpr, WHOLE_TAPS: tl.constexpr, VECTOR: tl.constexpr,
    PRECISION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    follow(OVERLAP)
    tiles_n = tl.cdiv(width, BLOCK_N + EXTRA_N)
    tile, part = tl.program_id(0), tl.program_id(1)
    first_row, first_column = tile // tiles_n * BLOCK_M, tile % tiles_n * (BLOCK_N + EXTRA_N)

    row = first_row + tl.arange(0, BLOCK_M)
    real = row < rows
    row = tl.where(real, row, 0)  # rows past the end load row 0 and store nothing
    stream, position = row // length, row % length
    row = row.to(tl.int64)
    x_rows = x_ptr + row * channels
    tail_rows = past(tail_ptr, slot_ptr, stream, position, tail, channels, x_rows, HAS_TAIL)
    column = first_column + tl.arange(0, BLOCK_N)
    extra_column = first_column + BLOCK_N + tl.arange(0, EXTRA_N) if EXTRA_N else column

    all_steps = tl.cdiv(taps * channels, BLOCK_K)
    steps = tl.cdiv(all_steps, parts)
    sums, extra_sums = product(
        x_rows, tail_rows, position, weight_ptr, column, extra_column,
        part * steps, tl.minimum((part + 1) * steps, all_steps), channels, width, taps, dilation,
        BLOCK_M, BLOCK_N, EXTRA_N, BLOCK_K, HAS_TAIL, EVEN_K, EVEN_N, WHOLE_TAPS, VECTOR, PRECISION,
    )  # fmt: skip

    inside = real[:, None] & (column < width)[None, :]
    last = True
    if SPLIT:
        size = rows.to(tl.int64) * width
        at = row[:, None] * width + column[None, :]
        tl.store(part_ptr + part * size + at, sums, mask=inside)
        if EXTRA_N > 0:
            extra_inside = real[:, None] & (extra_column < width)[None, :]
            extra_at = row[:, None] * width + extra_column[None, :]
            tl.store(part_ptr + part * size + extra_at, extra_sums, mask=extra_inside)
        tl.debug_barrier()  # every thread's part is written before the ticket says so
        last = tl.atomic_add(ticket_ptr + tile, 1, sem="acq_rel") == parts - 1
        if last:
            tl.store(ticket_ptr + tile, 0)
            tl.debug_barrier()
            sums = sum_parts(part_ptr, at, inside, size, parts)
            if EXTRA_N > 0:
                extra_sums = sum_parts(part_ptr, extra_at, extra_inside, size, parts)
    if last:
        finish(
            sums, row, column, inside, width,
            bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr,
            HAS_RESIDUAL, WRITE_PLAIN, WRITE_ACTIVE,
        )  # fmt: skip
        if EXTRA_N > 0:
            finish(
                extra_sums, row, extra_column, real[:, None] & (extra_column < width)[None, :], width,
                bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr,
                HAS_RESIDUAL, WRITE_PLAIN, WRITE_ACTIVE,
            )  # fmt: skip


def causal_conv(
    x: Tensor,
    tail: Tensor | None,
    slots: Tensor,
    conv: ConvWeights,
    residual: Tensor | None = None,
    activation: SnakeWeights | None = None,
    plain: Tensor | None = None,
    active: Tensor | None = None,
    tile: Tile | None = None,
) -> None:
    """As the reference, in float32 or a narrower type; sums and Snake are float32. `tile` overrides the table."""
    streams, length, channels = x.shape
    rows, width = streams * length, conv.width
    check(x, tail, slots, conv)
    for output in (residual, plain, active):
        assert output is None or (output.shape == (streams, length, width) and output.is_contiguous())
        assert output is None or output.dtype == x.dtype
    assert (active is None) == (activation is None) and not (active is None and plain is None)
    if tile is None:
        tile = choose(rows, conv.weight.shape[0], width, float32=x.dtype == torch.float32)
    tiles = tile.count(rows, width)
    assert tile.split == 1 or tiles <= conv.tickets.numel()
    parts = x.new_empty(tile.split * rows * width if tile.split > 1 else 0, dtype=torch.float32)
    causal_conv_kernel[(tiles, tile.split)](
        x, tail, slots, conv.weight, conv.bias, residual,
        activation and activation.frequency, activation and activation.gain, plain, active, parts, conv.tickets,
        rows, length, channels, width, conv.taps, conv.dilation, conv.tail, tile.split,
        BLOCK_M=tile.rows, BLOCK_N=tile.columns, EXTRA_N=tile.extra, BLOCK_K=tile.terms, SPLIT=tile.split > 1,
        HAS_TAIL=tail is not None, HAS_RESIDUAL=residual is not None,
        WRITE_PLAIN=plain is not None, WRITE_ACTIVE=active is not None,
        EVEN_K=conv.weight.shape[0] % tile.terms == 0, EVEN_N=width % tile.width == 0,
        WHOLE_TAPS=channels % tile.terms == 0, VECTOR=tile.vector,
        PRECISION="ieee" if x.dtype == torch.float32 else None,
        num_warps=tile.warps, num_stages=tile.stages, **overlap(x),
    )  # fmt: skip


def check(x: Tensor, tail: Tensor | None, slots: Tensor, conv: ConvWeights) -> None:
    assert x.is_contiguous() and x.dtype == conv.weight.dtype and x.shape[2] == conv.channels
    assert conv.weight.is_contiguous() and conv.bias.dtype == torch.float32 and conv.bias.shape == (conv.width,)
    assert slots.shape == x.shape[:1] and slots.dtype == torch.int64 and slots.is_contiguous()
    assert (tail is None) == (conv.tail == 0)
    if tail is not None:
        assert tail.shape[1:] == (conv.tail, conv.channels) and tail.is_contiguous() and tail.dtype == x.dtype
