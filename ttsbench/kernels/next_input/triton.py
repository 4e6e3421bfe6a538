"""Programs tile [R, D]; the sum is taken in float32 and rounded once. The first tile of a row writes its report.

Shapes: R rows, Q codebooks, D width.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.next_input.reference import ENDED, LAST, SOUND, FrameRows
from ttsbench.kernels.overlap import let_next_start, overlap, wait_for_previous

BLOCK = 512
"""Columns of a program: four programs a row at the 1.7B width, so that a small batch spreads too."""


@triton.jit  # type: ignore[untyped-decorator]
def next_input_kernel(  # type: ignore[no-untyped-def]
    codes_ptr, sound_ptr, table_ptr, offsets_ptr, slots_ptr, frames_ptr, at_ptr, has_text_ptr, pads_ptr, limits_ptr,
    inputs_ptr, report_ptr, width, eos, ENDED: tl.constexpr, LAST: tl.constexpr, SOUND: tl.constexpr,
    BOOKS: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    let_next_start(OVERLAP)
    wait_for_previous(OVERLAP)
    row = tl.program_id(0)
    tile = tl.program_id(1)
    column = tile * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    slot = tl.load(slots_ptr + row)
    here = inputs_ptr + tl.load(at_ptr + row) * width + column
    if tl.load(has_text_ptr + row):
        text = tl.load(here, mask=inside, other=0.0)
    else:
        text = tl.load(pads_ptr + slot * width + column, mask=inside, other=0.0)
    total = tl.zeros([BLOCK], tl.float32)
    for book in tl.static_range(BOOKS):
        code = tl.load(codes_ptr + row * BOOKS + book) + tl.load(offsets_ptr + book)
        total += tl.load(table_ptr + code * width + column, mask=inside, other=0.0).to(tl.float32)
        if tile == 0:
            tl.store(report_ptr + row * (BOOKS + 2) + book, tl.load(codes_ptr + row * BOOKS + book))
    tl.store(here, (total + text.to(tl.float32)).to(inputs_ptr.dtype.element_ty), mask=inside)
    if tile == 0:
        flags = tl.where(tl.load(codes_ptr + row * BOOKS) == eos, ENDED, 0)
        flags += tl.where(tl.load(frames_ptr + row) + 1 >= tl.load(limits_ptr + slot), LAST, 0)
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
        inputs, report, width, rows.eos, ENDED=ENDED, LAST=LAST, SOUND=SOUND, BOOKS=books, BLOCK=BLOCK, num_warps=4,
        **overlap(inputs),
    )  # fmt: skip
