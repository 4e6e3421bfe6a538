"""A program reads ROWS positions of a stream once and owns the samples whose taps all lie among them.

Each tap's product is summed over channels for every position; a sample then takes each tap's sum from another one.

Shapes: B streams, n positions, C channels.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.overlap import follow, overlap

ROWS = 64
"""Of them taps - 1 = 6 are read by the next program too."""


@triton.jit(do_not_specialize=["length", "streams"])  # type: ignore[untyped-decorator]
def output_conv_kernel(  # type: ignore[no-untyped-def]
    x_ptr, weight_ptr, bias_ptr, pcm_ptr, length, streams, channels,
    TAPS: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    follow(OVERLAP)
    stream = tl.program_id(0)
    row = tl.arange(0, ROWS)
    position = tl.program_id(1) * (ROWS - TAPS + 1) + row
    channel = tl.arange(0, BLOCK_C)
    known = channel < channels
    inside = (position < length + TAPS - 1)[:, None] & known[None, :]
    at = (position.to(tl.int64) * streams + stream) * channels
    x = tl.load(x_ptr + at[:, None] + channel[None, :], mask=inside, other=0.0).to(tl.float32)
    pcm = tl.zeros((ROWS,), dtype=tl.float32) + tl.load(bias_ptr)
    for tap in tl.static_range(TAPS):
        weight = tl.load(weight_ptr + tap * channels + channel, mask=known, other=0.0)
        pcm += tl.gather(tl.sum(x * weight[None, :], 1), tl.minimum(row + tap, ROWS - 1), 0)
    pcm = tl.clamp(pcm, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL)  # else NaN would pass for silence
    own = (row <= ROWS - TAPS) & (position < length)
    tl.store(pcm_ptr + stream.to(tl.int64) * length + position, pcm, mask=own)


def output_conv(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As the reference, with float32 weights."""
    taps, (padded, rows, channels) = weight.shape[0], x.shape
    length = padded - taps + 1
    assert x.is_contiguous() and length > 0 and weight.shape == (taps, channels) and bias.shape == (1,)
    assert weight.dtype == bias.dtype == torch.float32 and weight.is_contiguous()
    pcm = torch.empty(rows, length, dtype=torch.float32, device=x.device)
    output_conv_kernel[(rows, triton.cdiv(length, ROWS - taps + 1))](
        x, weight, bias, pcm, length, rows, channels,
        TAPS=taps, ROWS=ROWS, BLOCK_C=triton.next_power_of_2(channels), num_warps=4, **overlap(x),
    )  # fmt: skip
    return pcm
