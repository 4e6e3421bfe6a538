"""A program owns BLOCK_N positions of a stream; their rows come from memory once, and for the other taps from L1.

Products are summed per channel over the taps, and over channels once at the end.

Shapes: B rows, n positions, C channels, S slots, T tail rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.overlap import follow, overlap

BLOCK_N = 32


@triton.jit(do_not_specialize=["length"])  # type: ignore[untyped-decorator]
def output_conv_kernel(  # type: ignore[no-untyped-def]
    x_ptr, tail_ptr, slot_ptr, weight_ptr, bias_ptr, pcm_ptr, length, channels,
    TAPS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    follow(OVERLAP)
    stream = tl.program_id(0).to(tl.int64)
    position = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    slot = tl.load(slot_ptr + stream)
    channel = tl.arange(0, BLOCK_C)
    known = channel < channels
    inside = (position < length)[:, None] & known[None, :]
    sums = tl.zeros((BLOCK_N, BLOCK_C), dtype=tl.float32)
    for tap in tl.static_range(TAPS):
        at = position + tap - (TAPS - 1)
        start = tl.where(at >= 0, x_ptr + (stream * length + at) * channels,
                         tail_ptr + (slot * (TAPS - 1) + (TAPS - 1) + at) * channels)  # fmt: skip
        x = tl.load(start[:, None] + channel[None, :], mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + tap * channels + channel, mask=known, other=0.0)
        sums += x * weight[None, :]
    pcm = tl.sum(sums, 1) + tl.load(bias_ptr)
    pcm = tl.clamp(pcm, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL)  # else NaN would pass for silence
    tl.store(pcm_ptr + stream * length + position, pcm, mask=position < length)


def output_conv(x: Tensor, tail: Tensor, slots: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As the reference, with float32 weights."""
    (rows, length, channels), taps = x.shape, weight.shape[0]
    assert x.is_contiguous() and tail.is_contiguous() and tail.dtype == x.dtype
    assert tail.shape[1:] == (taps - 1, channels) and weight.shape == (taps, channels) and bias.shape == (1,)
    assert weight.dtype == bias.dtype == torch.float32 and weight.is_contiguous()
    assert slots.shape == (rows,) and slots.dtype == torch.int64 and slots.is_contiguous()
    pcm = torch.empty(rows, length, dtype=torch.float32, device=x.device)
    output_conv_kernel[(rows, triton.cdiv(length, BLOCK_N))](
        x, tail, slots, weight, bias, pcm, length, channels,
        TAPS=taps, BLOCK_N=BLOCK_N, BLOCK_C=triton.next_power_of_2(channels), num_warps=4,
        **overlap(x),
    )  # fmt: skip
    return pcm
