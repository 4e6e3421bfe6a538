"""One launch for all convolutions: a program moves some elements of the tail of one convolution of one row.

Shapes: as in `packed.py`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.overlap import follow, overlap
from ttsbench.kernels.shift_tails.packed import BLOCK, TailPlan


@triton.jit(do_not_specialize=["streams"])  # type: ignore[untyped-decorator]
def move_tails_kernel(  # type: ignore[no-untyped-def]
    input_ptr, tail_ptr, slot_ptr, part_ptr, position_ptr, streams,
    KEEP: tl.constexpr, BLOCK: tl.constexpr, ALIGN: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """`KEEP`: from the inputs' end to the tails, and the row's position goes up by one; else from them to the start."""
    follow(OVERLAP)
    row, part = tl.program_id(1), part_ptr + tl.program_id(0) * 6
    slot = tl.load(slot_ptr + row)
    input_start = tl.multiple_of(tl.load(part), ALIGN)
    tail_start = tl.multiple_of(tl.load(part + 1), ALIGN)
    channels = tl.multiple_of(tl.load(part + 2).to(tl.int32), ALIGN)
    length, tail = tl.load(part + 3), tl.load(part + 4)
    element = tl.multiple_of(tl.load(part + 5).to(tl.int32), ALIGN) + tl.arange(0, BLOCK)

    at = element // channels
    inside = at < tail
    kept = tail_ptr + tail_start + slot * tail * channels + element
    rows = input_ptr + input_start + (at.to(tl.int64) * streams + row) * channels + (element - at * channels)
    if KEEP:
        tl.store(kept, tl.load(rows + length * streams * channels, mask=inside), mask=inside)
        if tl.program_id(0) == 0:
            tl.atomic_add(position_ptr + slot, 1)
    else:
        tl.store(rows, tl.load(kept, mask=inside), mask=inside)


def place_tails(inputs: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan) -> None:
    """As the reference."""
    _move(inputs, tails, slots, plan, None)


def shift_tails(inputs: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan, position: Tensor) -> None:
    """As the reference. Rows that share a slot leave it with a mixture of theirs and disturb nothing else."""
    assert position.shape == (plan.num_slots,) and position.dtype == torch.int64 and position.is_contiguous()
    _move(inputs, tails, slots, plan, position)


def _move(inputs: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan, position: Tensor | None) -> None:
    assert inputs.shape == (plan.input_size,) and tails.shape == (plan.tail_size,) and inputs.dtype == tails.dtype
    assert slots.dtype == torch.int64 and slots.is_contiguous() and slots.numel() <= plan.max_rows
    grid = (plan.parts.shape[0], slots.numel())
    move_tails_kernel[grid](
        inputs, tails, slots, plan.parts, position, slots.numel(),
        KEEP=position is not None, BLOCK=BLOCK, ALIGN=plan.align, num_warps=4, **overlap(tails),
    )  # fmt: skip
