"""One row times a weight matrix: each program owns a few outputs and reads their rows of the weight, once, in order.

Products and sums are float32. Shapes: M outputs, D width.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit  # type: ignore[untyped-decorator]
def matvec_kernel(  # type: ignore[no-untyped-def]
    x_ptr, weight_ptr, bias_ptr, out_ptr, outputs, width, HAS_BIAS: tl.constexpr, OUTPUTS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    wanted = output < outputs
    row_ptr = weight_ptr + output.to(tl.int64)[:, None] * width
    total = tl.zeros([OUTPUTS, BLOCK], tl.float32)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < width
        x = tl.load(x_ptr + column, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(row_ptr + column[None, :], mask=wanted[:, None] & inside[None, :], other=0.0)
        total += weight.to(tl.float32) * x[None, :]
    result = tl.sum(total, 1)
    if HAS_BIAS:
        result += tl.load(bias_ptr + output, mask=wanted, other=0.0).to(tl.float32)
    tl.store(out_ptr + output, result.to(out_ptr.dtype.element_ty), mask=wanted)


def matvec(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """[1, M] from `x` [1, D]; contiguous tensors of one dtype."""
    outputs, width = weight.shape
    assert x.shape == (1, width)
    assert x.is_contiguous()
    assert weight.is_contiguous()
    assert x.dtype == weight.dtype
    assert bias is None or (bias.shape == (outputs,) and bias.dtype == x.dtype)
    per_program, block, warps = choose(outputs, width)
    out = torch.empty(1, outputs, device=x.device, dtype=x.dtype)
    matvec_kernel[(triton.cdiv(outputs, per_program),)](
        x, weight, x if bias is None else bias, out, outputs, width,
        HAS_BIAS=bias is not None, OUTPUTS=per_program, BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return out


def choose(outputs: int, width: int) -> tuple[int, int, int]:
    """(outputs, block, warps) of a program. Two outputs a program: measured on an H200 (docs/measurements.md)."""
    block, warps = (512, 2) if outputs >= 6144 else (1024, 4)
    return 2, min(block, max(64, triton.next_power_of_2(width))), warps
