"""Programs tile [N, I]; the product is taken in float32 and rounded once.

Shapes: N rows, I inner width.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
"""Columns of a program: the released inner widths 3,072 and 6,144 are multiples of it."""


@triton.jit  # type: ignore[untyped-decorator]
def silu_mul_kernel(gate_up_ptr, out_ptr, inner, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < inner
    gate = tl.load(gate_up_ptr + row * 2 * inner + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up_ptr + row * 2 * inner + inner + column, mask=inside, other=0.0).to(tl.float32)
    product = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out_ptr + row * inner + column, product.to(out_ptr.dtype.element_ty), mask=inside)


def silu_mul(gate_up: Tensor) -> Tensor:
    """[N, I] from contiguous packed rows [N, 2 I]."""
    assert gate_up.dim() == 2
    assert gate_up.is_contiguous()
    assert gate_up.shape[1] % 2 == 0
    rows, inner = gate_up.shape[0], gate_up.shape[1] // 2
    out = torch.empty(rows, inner, device=gate_up.device, dtype=gate_up.dtype)
    silu_mul_kernel[(rows, triton.cdiv(inner, BLOCK))](gate_up, out, inner, BLOCK=BLOCK, num_warps=4)
    return out
