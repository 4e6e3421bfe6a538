"""One program per row; the row stays in registers between the sum and the norm.

Shapes: N rows, D width.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.overlap import let_next_start, overlap, wait_for_previous


@triton.jit  # type: ignore[untyped-decorator]
def add_rms_norm_kernel(  # type: ignore[no-untyped-def]
    x_ptr, residual_ptr, weight_ptr, normed_ptr, total_ptr, width, eps, HAS_RESIDUAL: tl.constexpr, BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    let_next_start(OVERLAP)
    row = tl.program_id(0).to(tl.int64) * width
    column = tl.arange(0, BLOCK)
    inside = column < width
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    wait_for_previous(OVERLAP)
    x = tl.load(x_ptr + row + column, mask=inside, other=0.0)
    if HAS_RESIDUAL:
        x += tl.load(residual_ptr + row + column, mask=inside, other=0.0)
        tl.store(total_ptr + row + column, x, mask=inside)
    wide = x.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / width + eps)
    tl.store(normed_ptr + row + column, (wide * scale).to(x.dtype) * weight, mask=inside)


def add_rms_norm(x: Tensor, residual: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(normed, total) of contiguous rows [N, D]; without a residual `total` is `x` itself."""
    assert x.dim() == 2
    assert x.is_contiguous()
    assert weight.shape == x.shape[1:]
    assert weight.dtype == x.dtype
    assert residual is None or (residual.shape == x.shape and residual.is_contiguous() and residual.dtype == x.dtype)
    rows, width = x.shape
    normed = torch.empty_like(x)
    total = x if residual is None else torch.empty_like(x)
    block = triton.next_power_of_2(width)
    add_rms_norm_kernel[(rows,)](
        x, x if residual is None else residual, weight, normed, total, width, eps,
        HAS_RESIDUAL=residual is not None, BLOCK=block, num_warps=4 if block <= 2048 else 8, **overlap(x),
    )  # fmt: skip
    return normed, total
