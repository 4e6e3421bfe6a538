"""One launch for all convolutions: a program moves all tail rows of some channels of one convolution of one row.

A tail may be longer than the frame; then rows move within it, and every one is read before any is written.

Shapes: as in `packed.py`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.overlap import follow, overlap
from ttsbench.kernels.shift_tails.packed import BLOCK, TailPlan


@triton.jit  # type: ignore[untyped-decorator]
def shift_tails_kernel(  # type: ignore[no-untyped-def]
    input_ptr, tail_ptr, slot_ptr, part_ptr, BLOCK: tl.constexpr, ALIGN: tl.constexpr, OVERLAP: tl.constexpr
):
    follow(OVERLAP)
    row, part = tl.program_id(1).to(tl.int64), part_ptr + tl.program_id(0) * 7
    slot = tl.load(slot_ptr + row)
    input_start = tl.multiple_of(tl.load(part), ALIGN)
    tail_start = tl.multiple_of(tl.load(part + 1), ALIGN)
    channels = tl.multiple_of(tl.load(part + 2), ALIGN)
    length, tail = tl.load(part + 3), tl.load(part + 4)
    first = tl.multiple_of(tl.load(part + 5).to(tl.int32), ALIGN)
    width = tl.multiple_of(tl.load(part + 6).to(tl.int32), ALIGN)

    element = tl.arange(0, BLOCK)
    to = element // width
    column = first + element - to * width
    inside = to < tail
    source = to + length
    kept = tail_ptr + tail_start + slot * tail * channels
    new = input_ptr + input_start + (row * length - tail) * channels
    start = tl.where(source < tail, kept, new)
    value = tl.load(start + source * channels + column, mask=inside)
    tl.debug_barrier()  # another thread may be about to overwrite what this one has to read
    tl.store(kept + to * channels + column, value, mask=inside)


def shift_tails(inputs: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan) -> None:
    """As the reference. Rows that share a slot leave it with a mixture of theirs and disturb nothing else."""
    assert inputs.shape == (plan.input_size,) and tails.shape == (plan.tail_size,) and inputs.dtype == tails.dtype
    assert slots.dtype == torch.int64 and slots.is_contiguous() and slots.numel() <= plan.max_rows
    assert all(site.tail <= BLOCK for site in plan.sites)
    grid = (plan.parts.shape[0], slots.numel())
    shift_tails_kernel[grid](
        inputs, tails, slots, plan.parts, BLOCK=BLOCK, ALIGN=plan.align, num_warps=4, **overlap(tails)
    )
