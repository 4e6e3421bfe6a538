"""Both products of a residual unit for BLOCK_M positions and all channels.

The sums of the dilated convolution are made as in `causal_conv/triton.py`, with blocks; with their Snake they are the
left operand of the pointwise product, from registers. As there, BLOCK_N + EXTRA_N >= C channels are two blocks, on both
sides: the second product is four. Columns past the last channel are zeros in the weights and stay zeros.

Shapes: B streams, n positions, C channels, T positions of the past; M = n * B.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from ttsbench.kernels.causal_conv.packed import ConvWeights, SnakeWeights
from ttsbench.kernels.causal_conv.tiles import Tile
from ttsbench.kernels.causal_conv.triton import SNAKE, activated, check, described, finish, movable, product
from ttsbench.kernels.overlap import follow, overlap
from ttsbench.kernels.residual_unit.tiles import choose


@triton.jit
def between(sums, column, channels, bias_ptr, frequency_ptr, gain_ptr):  # type: ignore[no-untyped-def]
    """Bias and Snake of the first product's sums, in float32."""
    here = column < channels
    sums += tl.load(bias_ptr + column, mask=here, other=0.0)[None, :]
    return activated(sums, column, here, frequency_ptr, gain_ptr, SNAKE)


@triton.jit(do_not_specialize=["rows", "streams", "taps", "dilation", "steps"])  # type: ignore[untyped-decorator]
def residual_unit_kernel(  # type: ignore[no-untyped-def]
    x, weight, extra_weight, pointwise, extra_pointwise, corner_rows, corner,
    bias_ptr, between_frequency_ptr, between_gain_ptr, pointwise_bias_ptr, residual_ptr, frequency_ptr, gain_ptr,
    plain_ptr, active_ptr, rows, streams, channels, taps, dilation, steps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EXTRA_N: tl.constexpr, BLOCK_K: tl.constexpr,
    WRITE_PLAIN: tl.constexpr, PRECISION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """The pointwise weight is four blocks: `pointwise` and `extra_pointwise` beside it, below them `corner_rows` and
    `corner`."""
    follow(OVERLAP)
    first_row = tl.program_id(0) * BLOCK_M
    row = first_row + tl.arange(0, BLOCK_M)
    real = row < rows
    row = tl.where(real, row, 0).to(tl.int64)
    column = tl.arange(0, BLOCK_N)
    extra_column = BLOCK_N + tl.arange(0, EXTRA_N) if EXTRA_N else column
    sums, extra_sums = product(
        x, weight, extra_weight, row, bias_ptr, first_row, 0, column, extra_column,
        0, steps, channels, channels, taps, dilation * streams,
        BLOCK_M, BLOCK_N, EXTRA_N, BLOCK_K, True, True, True, True, PRECISION,
    )  # fmt: skip
    kind = active_ptr.dtype.element_ty
    left = between(sums, column, channels, bias_ptr, between_frequency_ptr, between_gain_ptr).to(kind)
    sums = tl.dot(left, pointwise.load([0, 0]), input_precision=PRECISION)
    if EXTRA_N > 0:
        extra_left = between(extra_sums, extra_column, channels, bias_ptr, between_frequency_ptr, between_gain_ptr)
        extra_left = extra_left.to(kind)
        sums = tl.dot(extra_left, corner_rows.load([BLOCK_N, 0]), sums, input_precision=PRECISION)
    finish(
        sums, row, column, real, channels, streams, channels,
        pointwise_bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr,
        False, True, WRITE_PLAIN, SNAKE,
    )  # fmt: skip
    if EXTRA_N > 0:
        sums = tl.dot(left, extra_pointwise.load([0, BLOCK_N]), input_precision=PRECISION)
        sums = tl.dot(extra_left, corner.load([BLOCK_N, BLOCK_N]), sums, input_precision=PRECISION)
        finish(
            sums, row, extra_column, real, channels, streams, channels,
            pointwise_bias_ptr, residual_ptr, frequency_ptr, gain_ptr, plain_ptr, active_ptr,
            False, True, WRITE_PLAIN, SNAKE,
        )  # fmt: skip


def residual_unit(
    x: Tensor,
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
    streams, channels = x.shape[1:]
    length = x.shape[0] - dilated.tail
    rows = length * streams
    check(x, dilated)
    assert movable(x, dilated) and movable(x, pointwise)
    assert pointwise.weight.shape == (channels, channels) and pointwise.weight.is_contiguous()
    assert dilated.width == channels and pointwise.bias.dtype == torch.float32 and pointwise.weight.dtype == x.dtype
    for tensor in (residual, plain, active):
        assert tensor is None or (tensor.shape == (length, streams, channels) and tensor.is_contiguous())
        assert tensor is None or tensor.dtype == x.dtype
    tile = tile or choose(channels, float32=x.dtype == torch.float32)
    assert tile.width >= channels and tile.split == 1 and tile.blocks
    widths = (tile.columns, tile.extra or tile.columns)
    residual_unit_kernel[(triton.cdiv(rows, tile.rows),)](
        *described(x, dilated.weight, tile),
        *(TensorDescriptor.from_tensor(pointwise.weight, [a, b]) for a in widths for b in widths),
        dilated.bias, between.frequency, between.gain,
        pointwise.bias, residual, activation.frequency, activation.gain, plain, active,
        rows, streams, channels, dilated.taps, dilated.dilation, dilated.taps * triton.cdiv(channels, tile.terms),
        BLOCK_M=tile.rows, BLOCK_N=tile.columns, EXTRA_N=tile.extra, BLOCK_K=tile.terms,
        WRITE_PLAIN=plain is not None, PRECISION="ieee" if x.dtype == torch.float32 else None,
        num_warps=tile.warps, num_stages=tile.stages, **overlap(x),
    )  # fmt: skip
