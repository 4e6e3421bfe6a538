"""Every convolution's tail: put before its frame, and moved on by a frame."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.shift_tails.packed import TailPlan, TailSite
from ttsbench.kernels.shift_tails.reference import place_tails as place_reference
from ttsbench.kernels.shift_tails.reference import shift_tails as shift_reference

__all__ = ["TailPlan", "TailSite", "place_tails", "shift_tails"]


def place_tails(inputs: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan) -> None:
    """Put the flat `tails` of the slots `slots` [B] int64 before the frame in the flat `inputs`. See `reference.py`."""
    if tails.is_cuda:
        from ttsbench.kernels.shift_tails.triton import place_tails as kernel

        kernel(inputs, tails, slots, plan)
    else:
        place_reference(inputs, tails, slots, plan)


def shift_tails(inputs: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan, position: Tensor) -> None:
    """Take the slots' tails from the end of `inputs`; their `position` [S] int64 goes up by one. See `reference.py`."""
    if tails.is_cuda:
        from ttsbench.kernels.shift_tails.triton import shift_tails as kernel

        kernel(inputs, tails, slots, plan, position)
    else:
        shift_reference(inputs, tails, slots, plan, position)
