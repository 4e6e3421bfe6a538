"""Snake of the codec decoder for training, one Triton kernel each way: y = x + sin(a x)^2 g.

As plain torch operations it is the larger part of a training step: five passes over the widest tensors, and each kept
for the backward. Here the forward reads x and writes y, and the backward computes the sines anew. A bench never sees
this file: the module's own formula decodes.

Shapes: B rows, C channels, n positions; a program owns BLOCK positions of one channel of one row.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.models.qwen3_tts.codec_layers import Snake

BLOCK = 2048
"""Positions: a middle value, as one of the narrowest layer's rows has 61,440 of them and of the widest's 128."""


@triton.jit  # type: ignore[untyped-decorator]
def snake_forward_kernel(x_ptr, a_ptr, g_ptr, y_ptr, channels, length, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, block = tl.program_id(0), tl.program_id(1)
    a = tl.load(a_ptr + row % channels)
    g = tl.load(g_ptr + row % channels)
    position = block * BLOCK + tl.arange(0, BLOCK)
    inside = position < length
    at = row.to(tl.int64) * length + position
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    sine = tl.sin(a * x)
    tl.store(y_ptr + at, (x + sine * sine * g).to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def snake_backward_kernel(  # type: ignore[no-untyped-def]
    x_ptr, a_ptr, g_ptr, dy_ptr, dx_ptr, da_ptr, dg_ptr, channels, length, BLOCK: tl.constexpr
):
    """With sin(2 a x) = 2 sin cos: dy/dx = 1 + a g sin(2 a x), dy/da = x g sin(2 a x), dy/dg = sin(a x)^2."""
    row, block = tl.program_id(0), tl.program_id(1)
    a = tl.load(a_ptr + row % channels)
    g = tl.load(g_ptr + row % channels)
    position = block * BLOCK + tl.arange(0, BLOCK)
    inside = position < length
    at = row.to(tl.int64) * length + position
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + at, mask=inside, other=0.0).to(tl.float32)
    sine, double = tl.sin(a * x), tl.sin(2.0 * a * x)
    tl.store(dx_ptr + at, (dy * (1.0 + a * g * double)).to(dx_ptr.dtype.element_ty), mask=inside)
    partial = row * tl.num_programs(1) + block
    tl.store(da_ptr + partial, tl.sum(dy * x * double, 0) * g)
    tl.store(dg_ptr + partial, tl.sum(dy * sine * sine, 0))


class _Snake(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, frequency: Tensor, gain: Tensor) -> Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        grid = (x.shape[0] * x.shape[1], triton.cdiv(x.shape[2], BLOCK))
        snake_forward_kernel[grid](x, frequency, gain, y, x.shape[1], x.shape[2], BLOCK=BLOCK)
        ctx.save_for_backward(x, frequency, gain)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, frequency, gain = ctx.saved_tensors
        dy, dx = grads[0].contiguous(), torch.empty_like(x)
        grid = (x.shape[0] * x.shape[1], triton.cdiv(x.shape[2], BLOCK))
        # One partial sum a program, summed by torch: the same result every time, which atomic additions do not give.
        parts = torch.empty(2, x.shape[0], x.shape[1], grid[1], device=x.device)
        snake_backward_kernel[grid](x, frequency, gain, dy, dx, parts[0], parts[1], x.shape[1], x.shape[2], BLOCK=BLOCK)
        d_frequency, d_gain = parts.sum((1, 3))
        return dx, d_frequency, d_gain


def snake(module: Snake, x: Tensor) -> Tensor:
    """What `module` does to `x` [B, C, n], from its parameters as they are now."""
    frequency = module.alpha.float().exp()
    gain = (module.beta.float().exp() + 1e-9).reciprocal()
    return _Snake.apply(x, frequency, gain)
