"""Both products of a residual unit for BLOCK_M positions and all channels.

The sums of the dilated convolution are made as in `causal_conv/triton.py`; with their Snake they are the left operand
of the pointwise product, from registers. As there, C = BLOCK_N + EXTRA_N channels are two blocks, on both sides: the
second product is four.

Shapes: B rows, n positions, C channels, S slots, T tail rows; M = B * n.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.causal_conv.packed import ConvWeights, SnakeWeights
from ttsbench.kernels.causal_conv.tiles import Tile
from ttsbench.kernels.causal_conv.triton import check, finish, past, product, sine_squared
from ttsbench.kernels.overlap import follow, overlap
from ttsbench.kernels.residual_unit.tiles import choose


@triton.jit
def activated(sums, column, bias_ptr, frequency_ptr, gain_ptr):  # type: ignore[no-untyped-def]
    """Bias and Snake of the first product's sums, in float32."""
    sums += tl.load(bias_ptr + column)[None, :]
    frequency, gain = tl.load(frequency_ptr + column)[None, :], tl.load(gain_ptr + column)[None, :]
    return sums + gain * sine_squared(frequency * sums)


@triton.jit  # type: ignore[untyped-decorator]
def pointwise_sums(  # type: ignore[no-untyped-def]
    left, extra_left, weight_ptr, row, extra_row, column,
    CHANNELS: tl.constexpr, EXTRA_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Columns `column` of [left, extra_left] @ weight."""
    weight = tl.load(weight_ptr + row[:, None] * CHANNELS + column[None, :])
    sums = tl.dot(left, weight, input_precision=PRECISION)
    if EXTRA_N > 0:
        weight = tl.load(weight_ptr + extra_row[:, None] * CHANNELS + column[None, :])
        sums = tl.dot(extra_left, weight, sums, input_precision=PRECISION)
    return sums


@triton.jit(do_not_specialize=["rows", "length", "taps", "dilation", "tail"])  # type: ignore[untyped-decorator]
def residual_unit_kernel(  # type: ignore[no-untyped-def]
    x_ptr, tail_ptr, slot_ptr, weight_ptr, bias_ptr, between_frequency_ptr, between_gain_ptr,
    pointwise_ptr, pointwise_bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr,
    rows, length, taps, dilation, tail,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EXTRA_N: tl.constexpr, BLOCK_K: tl.constexpr,
    WRITE_PLAIN: tl.constexpr, EVEN_K: tl.constexpr, WHOLE_TAPS: tl.constexpr, VECTOR: tl.constexpr,
    PRECISION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    follow(OVERLAP)
    CHANNELS: tl.constexpr = BLOCK_N + EXTRA_N
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    real = row < rows
    row = tl.where(real, row, 0)  # rows past the end load row 0 and store nothing
    stream, position = row // length, row % length
    row = row.to(tl.int64)
    x_rows = x_ptr + row * CHANNELS
    tail_rows = past(tail_ptr, slot_ptr, stream, position, tail, CHANNELS, x_rows, True)
    column = tl.arange(0, BLOCK_N)
    extra_column = BLOCK_N + tl.arange(0, EXTRA_N) if EXTRA_N else column
    sums, extra_sums = product(
        x_rows, tail_rows, position, weight_ptr, column, extra_column,
        0, tl.cdiv(taps * CHANNELS, BLOCK_K), CHANNELS, CHANNELS, taps, dilation,
        BLOCK_M, BLOCK_N, EXTRA_N, BLOCK_K, True, EVEN_K, True, WHOLE_TAPS, VECTOR, PRECISION,
    )  # fmt: skip
    kind = active_ptr.dtype.element_ty
    left = activated(sums, column, bias_ptr, between_frequency_ptr, between_gain_ptr).to(kind)
    extra_left = left
    if EXTRA_N > 0:
        extra_left = activated(extra_sums, extra_column, bias_ptr, between_frequency_ptr, between_gain_ptr).to(kind)
    sums = pointwise_sums(left, extra_left, pointwise_ptr, column, extra_column, column, CHANNELS, EXTRA_N, PRECISION)
    finish(
        sums, row, column, real[:, None], CHANNELS,
        pointwise_bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr, True, WRITE_PLAIN, True,
    )  # fmt: skip
    if EXTRA_N > 0:
        sums = pointwise_sums(
            left, extra_left, pointwise_ptr, column, extra_column, extra_column, CHANNELS, EXTRA_N, PRECISION
        )
        finish(
            sums, row, extra_column, real[:, None], CHANNELS,
            pointwise_bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr, True, WRITE_PLAIN, True,
        )  # fmt: skip


def residual_unit(
    x: Tensor,
    tail: Tensor,
    slots: Tensor,
    dilated: ConvWeights,
    between: SnakeWeights,
    pointwise: ConvWeights,
    residual: Tensor,
    activation: SnakeWeights,
    plain: Tensor | None,
    active: Tensor,
    tile: Tile | None = None,
) -> None:
    """As the reference, in float32 or a narrower type; sums and Snakes are float32. `tile` overrides the table."""
    streams, length, channels = x.shape
    rows = streams * length
    check(x, tail, slots, dilated)
    assert pointwise.weight.shape == (channels, channels) and pointwise.weight.is_contiguous()
    assert dilated.width == channels and pointwise.bias.dtype == torch.float32 and pointwise.weight.dtype == x.dtype
    for tensor in (residual, plain, active):
        assert tensor is None or (tensor.shape == x.shape and tensor.is_contiguous() and tensor.dtype == x.dtype)
    tile = tile or choose(rows, channels, float32=x.dtype == torch.float32)
    assert tile.width == channels and tile.split == 1
    residual_unit_kernel[(triton.cdiv(rows, tile.rows),)](
        x, tail, slots, dilated.weight, dilated.bias, between.frequency, between.gain,
        pointwise.weight, pointwise.bias, residual, activation.frequency, activation.gain, plain, active,
        rows, length, dilated.taps, dilated.dilation, dilated.tail,
        BLOCK_M=tile.rows, BLOCK_N=tile.columns, EXTRA_N=tile.extra, BLOCK_K=tile.terms,
        WRITE_PLAIN=plain is not None, EVEN_K=dilated.weight.shape[0] % tile.terms == 0,
        WHOLE_TAPS=channels % tile.terms == 0, VECTOR=tile.vector,
        PRECISION="ieee" if x.dtype == torch.float32 else None,
        num_warps=tile.warps, num_stages=tile.stages, **overlap(x),
    )  # fmt: skip
