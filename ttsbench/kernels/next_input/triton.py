"""Programs tile [R, D]; the sum is taken in float32 and rounded once. The first tile of a row writes its report.

All codes of a row are read at once, and then all their embeddings: one after the other they would wait for memory as
often as there are codebooks.

Shapes: R rows, Q codebooks, D width.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.next_input.reference import ENDED, LAST, SOUND, FrameRows
from ttsbench.kernels.overlap import let_next_start, overlap, wait_for_previous

BLOCK = 256
"""Columns of a program, which is one warp: a lane has 16 bytes of every embedding, and sums them by itself."""


@triton.jit  # type: ignore[untyped-decorator]
def next_input_kernel(  # type: ignore[no-untyped-def]
    codes_ptr, sound_ptr, table_ptr, offsets_ptr, slots_ptr, frames_ptr, at_ptr, has_text_ptr, pads_ptr, limits_ptr,
    inputs_ptr, report_ptr, width, eos, ENDED: tl.constexpr, LAST: tl.constexpr, SOUND: tl.constexpr,
    BOOKS: tl.constexpr, MOST_BOOKS: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    tile = tl.program_id(1)
    column = tile * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    book = tl.arange(0, MOST_BOOKS)
    # What the host has sent, and tables: no kernel changes these.
    slot = tl.load(slots_ptr + row)
    here = inputs_ptr + tl.load(at_ptr + row) * width + column
    has_text = tl.load(has_text_ptr + row) != 0
    pad = tl.load(pads_ptr + slot * width + column, mask=inside, other=0.0)
    is_last = tl.load(frames_ptr + row) + 1 >= tl.load(limits_ptr + slot)
    offsets = tl.load(offsets_ptr + book, mask=book < BOOKS, other=0)
    wait_for_previous(OVERLAP)
    let_next_start(OVERLAP)
    codes = tl.load(codes_ptr + row * BOOKS + book, mask=book < BOOKS, other=0)
    text = tl.load(here, mask=column < tl.where(has_text, width, 0), other=0.0)
    at = (codes + offsets)[:, None] * width + column[None, :]
    embeddings = tl.load(table_ptr + at, mask=(book < BOOKS)[:, None] & inside[None, :], other=0.0)
    joins = tl.where(has_text, text, pad).to(tl.float32)
    total = tl.sum(embeddings.to(tl.float32), 0) + joins
    tl.store(here, total.to(inputs_ptr.dtype.element_ty), mask=inside)
    if tile == 0:
        tl.store(report_ptr + row * (BOOKS + 2) + book, codes, mask=book < BOOKS)
        first = tl.sum(tl.where(book == 0, codes, 0), 0)
        flags = tl.where(first == eos, ENDED, 0) + tl.where(is_last, LAST, 0)
        flags += tl.where(tl.load(sound_ptr + row) != 0, SOUND, 0)
        tl.store(report_ptr + row * (BOOKS + 2) + BOOKS, flags.to(tl.int64))
        tl.store(report_ptr + row * (BOOKS + 2) + BOOKS + 1, slot)


def next_input(
    codes: Tensor, sound: Tensor, table: Tensor, offsets: Tensor, rows: FrameRows, inputs: Tensor, report: Tensor
) -> None:
    """As the reference; all tensors contiguous."""
    count, books = codes.shape
    width = table.shape[1]
    assert report.shape == (count, books + 2)
    assert offsets.shape == (books,)
    assert inputs.shape[1] == width
    assert all(t.is_contiguous() for t in (codes, sound, table, inputs, report, rows.pads))
    assert inputs.dtype == table.dtype == rows.pads.dtype
    next_input_kernel[(count, triton.cdiv(width, BLOCK))](
        codes, sound, table, offsets, rows.slots, rows.frames, rows.inputs, rows.has_text, rows.pads, rows.limits,
        inputs, report, width, rows.eos, ENDED=ENDED, LAST=LAST, SOUND=SOUND, BOOKS=books,
        MOST_BOOKS=triton.next_power_of_2(books), BLOCK=BLOCK, num_warps=1, **overlap(inputs),
    )  # fmt: skip
