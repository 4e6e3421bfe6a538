"""The convolution as one matrix product whose left rows are gathered where they lie.

Row i * B + b of the product is position i of stream b, and tap t reads the input's row t * dilation * B further down:
time comes first, so all rows of a tile are one block of the input, whatever the tap and however few positions a frame
has. A step of the sum takes BLOCK_K terms of one tap, or with `WHOLE_TAPS` false of the flat [taps * C]. The programs
of one row tile are neighbours: they read the same inputs while these are in the L2 cache.

With `BLOCKS` both operands are moved by the memory engine (TMA), which needs no thread's registers and no addresses; it
reads zeros past the end of the channels, so that there a step always lies within one tap. Else by the threads.

A tile of BLOCK_N + EXTRA_N columns keeps two accumulators over one left operand, as `tl.arange` knows only powers of
two and the layers' widths are 3 * 2^i. With `parts` programs per tile each writes its part of the sum; the last to
come adds the parts in order, so the result does not depend on who that is.

Shapes: B streams, n positions, C channels, N = r * C' columns; M = n * B, K = taps * C.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from ttsbench.kernels.causal_conv.packed import Activation, ConvWeights, SnakeWeights
from ttsbench.kernels.causal_conv.tiles import Tile, choose
from ttsbench.kernels.invariant import planned
from ttsbench.kernels.overlap import fetch_lines, let_next_start, overlap, wait_for_previous
from ttsbench.kernels.sine import approximates, sine

NO_ACTIVATION, SNAKE, GELU = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit  # type: ignore[untyped-decorator]
def activated(  # type: ignore[no-untyped-def]
    sums, column, here, frequency_ptr, gain_ptr, ACTIVATION: tl.constexpr, APPROXIMATE: tl.constexpr
):
    """Snake or GELU of the sums of columns `column`."""
    if ACTIVATION == SNAKE:
        frequency = tl.load(frequency_ptr + column, mask=here, other=0.0)[None, :]
        gain = tl.load(gain_ptr + column, mask=here, other=0.0)[None, :]
        wave = sine(frequency * sums, APPROXIMATE)
        return sums + gain * (wave * wave)
    else:
        return 0.5 * sums * (1.0 + tl.erf(sums * 0.7071067811865476))


@triton.jit  # type: ignore[untyped-decorator]
def finish(  # type: ignore[no-untyped-def]
    sums, row, column, real, width, streams, channels_out,
    bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr,
    PHASED: tl.constexpr, HAS_RESIDUAL: tl.constexpr, WRITE_PLAIN: tl.constexpr, ACTIVATION: tl.constexpr,
    APPROXIMATE: tl.constexpr,
):  # fmt: skip
    """Bias, residual and activation of the sums of rows `row` and columns `column`, all in float32.

    `PHASED`: the columns are several positions of `channels_out`, which in the output are `streams` rows apart.
    """
    here = column < width
    inside = real[:, None] & here[None, :]
    if PHASED:
        position = row // streams
        phase = column // channels_out
        row_at = position * (streams * width) + (row - position * streams) * channels_out
        at = row_at[:, None] + (phase.to(tl.int64) * (streams - 1) * channels_out + column)[None, :]
    else:
        at = row[:, None] * width + column[None, :]
    sums += tl.load(bias_ptr + column, mask=here, other=0.0)[None, :]
    if HAS_RESIDUAL:
        sums += tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if WRITE_PLAIN:
        tl.store(plain_ptr + at, sums.to(plain_ptr.dtype.element_ty), mask=inside)
    if ACTIVATION != NO_ACTIVATION:
        sums = activated(sums, column, here, frequency_ptr, gain_ptr, ACTIVATION, APPROXIMATE)
        tl.store(active_ptr + at, sums.to(active_ptr.dtype.element_ty), mask=inside)


@triton.jit
def sum_parts(part_ptr, at, inside, size, parts):  # type: ignore[no-untyped-def]
    """Past the L1 cache, which does not see what other multiprocessors have written."""
    sums = tl.load(part_ptr + at, mask=inside, other=0.0, cache_modifier=".cg")
    for part in range(1, parts):
        sums += tl.load(part_ptr + part * size + at, mask=inside, other=0.0, cache_modifier=".cg")
    return sums


@triton.jit  # type: ignore[untyped-decorator]
def product(  # type: ignore[no-untyped-def]
    x, weight, extra_weight, x_rows, weight_ptr, first_row, first_column, column, extra_column,
    first_step, end_step, channels, width, taps, spacing,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EXTRA_N: tl.constexpr, BLOCK_K: tl.constexpr,
    BLOCKS: tl.constexpr, EVEN_K: tl.constexpr, EVEN_N: tl.constexpr, WHOLE_TAPS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums of `column` and of `extra_column` (empty: the first again) over the steps from `first_step` on.

    `spacing` rows of the input lie between two taps. `x`, `weight`, `extra_weight` are blocks of what the pointers
    point to.
    """
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    extra_sums = tl.zeros((BLOCK_M, EXTRA_N if EXTRA_N else BLOCK_N), dtype=tl.float32)
    terms = taps * channels
    for step in range(first_step, end_step):
        if BLOCKS:
            tap = step % taps
            channel = step // taps * BLOCK_K
            left = x.load([first_row + tap * spacing, channel])
            right = weight.load([tap * channels + channel, first_column])
            if EXTRA_N > 0:
                extra_right = extra_weight.load([tap * channels + channel, first_column + BLOCK_N])
        else:
            if WHOLE_TAPS:
                tap = step % taps
                channel = step // taps * BLOCK_K + tl.arange(0, BLOCK_K)
                k = tap * channels + channel
                x_at = (x_rows + tap.to(tl.int64) * spacing * channels)[:, None] + channel[None, :]
            else:
                k = step * BLOCK_K + tl.arange(0, BLOCK_K)
                x_at = x_rows[:, None] + (k + (k // channels).to(tl.int64) * (spacing - 1) * channels)[None, :]
            w_at = weight_ptr + k.to(tl.int64)[:, None] * width
            left = tl.load(x_at) if EVEN_K else tl.load(x_at, mask=(k < terms)[None, :], other=0.0)
            if EVEN_K and EVEN_N:
                right = tl.load(w_at + column[None, :])
            else:
                right = tl.load(
                    w_at + column[None, :], mask=(k < terms)[:, None] & (column < width)[None, :], other=0.0
                )
            if EXTRA_N > 0:
                if EVEN_K and EVEN_N:
                    extra_right = tl.load(w_at + extra_column[None, :])
                else:
                    known = (k < terms)[:, None] & (extra_column < width)[None, :]
                    extra_right = tl.load(w_at + extra_column[None, :], mask=known, other=0.0)
        sums = tl.dot(left, right, sums, input_precision=PRECISION)
        if EXTRA_N > 0:
            extra_sums = tl.dot(left, extra_right, extra_sums, input_precision=PRECISION)
    return sums, extra_sums


@triton.jit(do_not_specialize=["rows", "streams", "taps", "dilation", "parts", "all_steps"])  # type: ignore[untyped-decorator]
def causal_conv_kernel(  # type: ignore[no-untyped-def]
    x, weight, extra_weight, x_ptr, weight_ptr, bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr,
    part_ptr, ticket_ptr, rows, streams, channels, width, channels_out, taps, dilation, all_steps, parts,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EXTRA_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
    BLOCKS: tl.constexpr, PHASED: tl.constexpr, HAS_RESIDUAL: tl.constexpr, WRITE_PLAIN: tl.constexpr,
    ACTIVATION: tl.constexpr, EVEN_K: tl.constexpr, EVEN_N: tl.constexpr, WHOLE_TAPS: tl.constexpr,
    FETCH: tl.constexpr, APPROXIMATE: tl.constexpr, PRECISION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """`FETCH`: 128 bytes of every weight row of the tile are brought into the L2 cache ahead; for narrow tiles.

    Large tiles let the next kernel start at their end: programs that only wait would take the room of what runs on
    other streams.
    """
    tiles_n = tl.cdiv(width, BLOCK_N + EXTRA_N)
    tile, part = tl.program_id(0), tl.program_id(1)
    first_row, first_column = tile // tiles_n * BLOCK_M, tile % tiles_n * (BLOCK_N + EXTRA_N)
    steps = tl.cdiv(all_steps, parts)
    first_step, end_step = part * steps, tl.minimum((part + 1) * steps, all_steps)
    if FETCH:
        for step in range(first_step, end_step):  # the weight needs nothing of the kernel before
            k = step % taps * channels + step // taps * BLOCK_K + tl.arange(0, BLOCK_K)
            fetch_lines(weight_ptr + k.to(tl.int64) * width + first_column, k >= 0)
    wait_for_previous(OVERLAP)
    if not BLOCKS:
        let_next_start(OVERLAP)

    row = first_row + tl.arange(0, BLOCK_M)
    real = row < rows
    row = tl.where(real, row, 0).to(tl.int64)  # rows past the end load row 0 and store nothing
    column = first_column + tl.arange(0, BLOCK_N)
    extra_column = first_column + BLOCK_N + tl.arange(0, EXTRA_N) if EXTRA_N else column

    sums, extra_sums = product(
        x, weight, extra_weight, x_ptr + row * channels, weight_ptr, first_row, first_column, column, extra_column,
        first_step, end_step, channels, width, taps, dilation * streams,
        BLOCK_M, BLOCK_N, EXTRA_N, BLOCK_K, BLOCKS, EVEN_K, EVEN_N, WHOLE_TAPS, PRECISION,
    )  # fmt: skip

    last = True
    if SPLIT:
        size = rows.to(tl.int64) * width
        inside = real[:, None] & (column < width)[None, :]
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
            sums, row, column, real, width, streams, channels_out,
            bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr,
            PHASED, HAS_RESIDUAL, WRITE_PLAIN, ACTIVATION, APPROXIMATE,
        )  # fmt: skip
        if EXTRA_N > 0:
            finish(
                extra_sums, row, extra_column, real, width, streams, channels_out,
                bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr,
                PHASED, HAS_RESIDUAL, WRITE_PLAIN, ACTIVATION, APPROXIMATE,
            )  # fmt: skip
    if BLOCKS:
        let_next_start(OVERLAP)


def causal_conv(
    x: Tensor,
    conv: ConvWeights,
    residual: Tensor | None = None,
    activation: Activation | None = None,
    plain: Tensor | None = None,
    active: Tensor | None = None,
    tile: Tile | None = None,
) -> None:
    """As the reference, in float32 or a narrower type; sums and activation are float32. `tile` overrides the table."""
    streams, channels, width = x.shape[1], x.shape[2], conv.width
    length = x.shape[0] - conv.tail
    rows = length * streams
    check(x, conv)
    channels_out = width
    for output in (residual, plain, active):
        if output is not None:
            channels_out = output.shape[2]
            assert output.shape == (length * (width // channels_out), streams, channels_out)
            assert output.is_contiguous() and output.dtype == x.dtype
    assert (active is None) == (activation is None) and not (active is None and plain is None)
    float32 = x.dtype == torch.float32
    chosen_for = length * planned(streams)
    tile = tile or choose(chosen_for, conv.taps, channels, width, float32=float32, blocks=movable(x, conv))
    tiles = tile.count(rows, width)
    assert tile.split == 1 or tiles <= conv.tickets.numel()
    parts = x.new_empty(tile.split * rows * width if tile.split > 1 else 0, dtype=torch.float32)
    whole_taps = channels % tile.terms == 0
    steps = conv.taps * -(-channels // tile.terms) if tile.blocks else -(-conv.weight.shape[0] // tile.terms)
    snake = activation if isinstance(activation, SnakeWeights) else None
    kind = NO_ACTIVATION if activation is None else GELU if snake is None else SNAKE
    launch = overlap(x)
    few = tile.rows <= 32 and tile.width * x.element_size() <= 128  # then reading the weight is all the work
    causal_conv_kernel[(tiles, tile.split)](
        *described(x, conv.weight, tile), x, conv.weight, conv.bias, residual,
        snake and snake.frequency, snake and snake.gain, plain, active, parts, conv.tickets,
        rows, streams, channels, width, channels_out, conv.taps, conv.dilation, steps, tile.split,
        BLOCK_M=tile.rows, BLOCK_N=tile.columns, EXTRA_N=tile.extra, BLOCK_K=tile.terms, SPLIT=tile.split > 1,
        BLOCKS=tile.blocks, PHASED=channels_out != width, HAS_RESIDUAL=residual is not None,
        WRITE_PLAIN=plain is not None, ACTIVATION=kind.value,
        EVEN_K=conv.weight.shape[0] % tile.terms == 0, EVEN_N=width % tile.width == 0, WHOLE_TAPS=whole_taps,
        FETCH=launch["OVERLAP"] and few and whole_taps, APPROXIMATE=approximates(x),
        PRECISION="ieee" if float32 else None,
        num_warps=tile.warps, num_stages=tile.stages, **launch,
    )  # fmt: skip


def described(x: Tensor, weight: Tensor, tile: Tile) -> tuple[Any, Any, Any]:
    """Blocks of the input as rows of channels, of the weight, and of its extra columns."""
    if not tile.blocks:
        return None, None, None
    columns = [
        TensorDescriptor.from_tensor(weight, [tile.terms, n or tile.columns]) for n in (tile.columns, tile.extra)
    ]
    return TensorDescriptor.from_tensor(x.flatten(0, 1), [tile.rows, tile.terms]), columns[0], columns[1]


def movable(x: Tensor, conv: ConvWeights) -> bool:
    """Whether the memory engine can move blocks of both: rows and starts are multiples of 16 bytes."""
    size = x.element_size()
    rows = x.shape[2] * size % 16 == 0 and conv.width * size % 16 == 0
    return rows and x.data_ptr() % 16 == 0 and conv.weight.data_ptr() % 16 == 0


def check(x: Tensor, conv: ConvWeights) -> None:
    assert x.is_contiguous() and x.dtype == conv.weight.dtype and x.shape[2] == conv.channels
    assert x.shape[0] > conv.tail and conv.weight.is_contiguous()
    assert conv.bias.dtype == torch.float32 and conv.bias.shape == (conv.width,)
