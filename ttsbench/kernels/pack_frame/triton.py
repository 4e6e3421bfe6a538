"""One program per row, which holds all its samples.

Shapes: R rows, Q codebooks, W words of an output row: hop + Q + 1.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.overlap import follow, overlap
from ttsbench.kernels.pack_frame.reference import FINITE_PCM


@triton.jit  # type: ignore[untyped-decorator]
def pack_frame_kernel(  # type: ignore[no-untyped-def]
    pcm_ptr, report_ptr, out_ptr, words_ptr, hop, FINITE_PCM: tl.constexpr, BOOKS: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_BOOKS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    follow(OVERLAP)
    row = tl.program_id(0).to(tl.int64)
    at, book = tl.arange(0, BLOCK), tl.arange(0, BLOCK_BOOKS)
    inside = at < hop
    pcm = tl.load(pcm_ptr + row * hop + at, mask=inside, other=0.0)
    codes = tl.load(report_ptr + row * (BOOKS + 2) + book, mask=book < BOOKS, other=0)
    flags = tl.load(report_ptr + row * (BOOKS + 2) + BOOKS)
    # Not "some is infinite": NaN fails every comparison.
    finite = tl.sum((tl.abs(pcm) < float("inf")).to(tl.int32), 0) == BLOCK
    begin = row * (hop + BOOKS + 1)
    tl.store(out_ptr + begin + at, pcm, mask=inside)
    tl.store(words_ptr + begin + hop + book, codes.to(tl.int32), mask=book < BOOKS)
    tl.store(words_ptr + begin + hop + BOOKS, (flags + tl.where(finite, FINITE_PCM, 0)).to(tl.int32))


def pack_frame(pcm: Tensor, report: Tensor, out: Tensor) -> None:
    """As the reference; all tensors contiguous."""
    rows, hop = pcm.shape
    books = report.shape[1] - 2
    assert report.shape[0] == rows and out.shape == (rows, hop + books + 1)
    assert pcm.dtype == out.dtype == torch.float32 and report.dtype == torch.int64
    assert pcm.is_contiguous() and report.is_contiguous() and out.is_contiguous()
    pack_frame_kernel[(rows,)](
        pcm, report, out, out.view(torch.int32), hop, FINITE_PCM=FINITE_PCM, BOOKS=books,
        BLOCK=triton.next_power_of_2(hop), BLOCK_BOOKS=triton.next_power_of_2(books), num_warps=4, **overlap(pcm),
    )  # fmt: skip
