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
    x_ptr, where_ptr, residual_ptr, weight_ptr, normed_ptr, total_ptr, width, eps, GATHER: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    source = tl.load(where_ptr + row) if GATHER else row  # what the host has sent
    wait_for_previous(OVERLAP)
    let_next_start(OVERLAP)
    x = tl.load(x_ptr + source * width + column, mask=inside, other=0.0)
    if HAS_RESIDUAL:
        x += tl.load(residual_ptr + row * width + column, mask=inside, other=0.0)
    if GATHER or HAS_RESIDUAL:
        tl.store(total_ptr + row * width + column, x, mask=inside)
    wide = x.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / width + eps)
    tl.store(normed_ptr + row * width + column, (wide * scale).to(x.dtype) * weight, mask=inside)


def add_rms_norm(x: Tensor, residual: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(normed, total) of contiguous rows [N, D]; without a residual `total` is `x` itself."""
    assert residual is None or (residual.shape == x.shape and residual.is_contiguous() and residual.dtype == x.dtype)
    normed = torch.empty_like(x)
    total = x if residual is None else torch.empty_like(x)
    _launch(x, None, residual, weight, eps, normed, total)
    return normed, total


def gathered_rms_norm(x: Tensor, where: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(normed, rows) of the rows `where` [N], which no kernel of the chain writes, of contiguous `x` [P, D]."""
    assert where.dim() == 1 and where.is_contiguous() and where.dtype == torch.int64
    normed, total = (x.new_empty(len(where), x.shape[1]) for _ in range(2))
    _launch(x, where, None, weight, eps, normed, total)
    return normed, total


def _launch(
    x: Tensor, where: Tensor | None, residual: Tensor | None, weight: Tensor, eps: float, normed: Tensor, total: Tensor
) -> None:
    assert x.dim() == 2
    assert x.is_contiguous()
    assert weight.shape == x.shape[1:]
    assert weight.dtype == x.dtype
    rows, width = normed.shape
    block = triton.next_power_of_2(width)
    add_rms_norm_kernel[(rows,)](
        x, where, residual, weight, normed, total, width, eps, GATHER=where is not None,
        HAS_RESIDUAL=residual is not None, BLOCK=block, num_warps=4 if block <= 2048 else 8, **overlap(x),
    )  # fmt: skip
