"""A program owns one position with all its channels, so the norm needs no second pass.

Shapes: B streams, n positions, C channels, T positions of the past.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.dwconv_norm.packed import DepthwiseNorm
from ttsbench.kernels.overlap import follow, overlap


@triton.jit(do_not_specialize=["streams"])  # type: ignore[untyped-decorator]
def dwconv_norm_kernel(  # type: ignore[no-untyped-def]
    x_ptr, weight_ptr, bias_ptr, gain_ptr, shift_ptr, out_ptr, streams, channels, eps,
    TAPS: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    follow(OVERLAP)
    row = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, BLOCK)
    inside = channel < channels
    y = tl.load(bias_ptr + channel, mask=inside, other=0.0)
    for tap in tl.static_range(TAPS):
        x = tl.load(x_ptr + (row + tap * streams) * channels + channel, mask=inside, other=0.0).to(tl.float32)
        y += x * tl.load(weight_ptr + tap * channels + channel, mask=inside, other=0.0)
    centred = tl.where(inside, y - tl.sum(y, 0) / channels, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / channels + eps)
    gain = tl.load(gain_ptr + channel, mask=inside, other=0.0)
    shift = tl.load(shift_ptr + channel, mask=inside, other=0.0)
    out = centred * scale * gain + shift
    tl.store(out_ptr + row * channels + channel, out.to(out_ptr.dtype.element_ty), mask=inside)


def dwconv_norm(x: Tensor, weights: DepthwiseNorm) -> Tensor:
    """As the reference, with float32 weights."""
    padded, streams, channels = x.shape
    length = padded - weights.tail
    assert x.is_contiguous() and length > 0
    for tensor in (weights.weight, weights.bias, weights.gain, weights.shift):
        assert tensor.dtype == torch.float32 and tensor.is_contiguous() and tensor.shape[-1] == channels
    out = x.new_empty(length, streams, channels)
    dwconv_norm_kernel[(length * streams,)](
        x, weights.weight, weights.bias, weights.gain, weights.shift, out, streams, channels, weights.eps,
        TAPS=weights.tail + 1, BLOCK=triton.next_power_of_2(channels), num_warps=4,
        **overlap(x),
    )  # fmt: skip
    return out
