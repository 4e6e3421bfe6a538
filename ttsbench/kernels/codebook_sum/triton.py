"""A program sums BLOCK columns of one frame; the rows it reads are all in flight at once.

Shapes: B rows, Q codebooks, N codebook size, D width.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.overlap import follow, overlap

BLOCK = 128
"""Columns of a program, which is one warp: a lane has 16 bytes of every row, and sums them by itself."""


@triton.jit  # type: ignore[untyped-decorator]
def codebook_sum_kernel(  # type: ignore[no-untyped-def]
    code_ptr, table_ptr, out_ptr, code_stride, size, width, BOOKS: tl.constexpr, MOST_BOOKS: tl.constexpr,
    BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    follow(OVERLAP)
    row, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    book = tl.arange(0, MOST_BOOKS)
    inside = (book < BOOKS)[:, None] & (column < width)[None, :]
    code = tl.load(code_ptr + row * code_stride + book, mask=book < BOOKS, other=0)
    entry = book * size + tl.minimum(code, size - 1)
    rows = tl.load(table_ptr + entry[:, None] * width + column[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + row * width + column, tl.sum(rows, 0).to(out_ptr.dtype.element_ty), mask=column < width)


def codebook_sum(codes: Tensor, table: Tensor, out: Tensor) -> None:
    """As the reference, from a float32 table. Rows of `codes` may lie apart: a frame of a longer piece is one."""
    (rows, books), width = codes.shape, table.shape[1]
    assert codes.stride(1) == 1 and codes.dtype == torch.int64
    assert table.is_contiguous() and table.dtype == torch.float32 and table.shape[0] % books == 0
    assert out.shape == (rows, width) and out.is_contiguous()
    grid = (rows, triton.cdiv(width, BLOCK))
    codebook_sum_kernel[grid](
        codes, table, out, codes.stride(0), table.shape[0] // books, width, BOOKS=books,
        MOST_BOOKS=triton.next_power_of_2(books), BLOCK=BLOCK, num_warps=1, **overlap(out),
    )  # fmt: skip
