"""Every convolution's tail moves on by a frame."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.shift_tails.packed import TailPlan, TailSite
from ttsbench.kernels.shift_tails.reference import shift_tails as reference

__all__ = ["TailPlan", "TailSite", "shift_tails"]


def shift_tails(inputs: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan) -> None:
    """Advance the slots `slots` [B] int64 of the flat `tails` by one frame's flat `inputs`. See `reference.py`."""
    if tails.is_cuda:
        from ttsbench.kernels.shift_tails.triton import shift_tails as kernel

        kernel(inputs, tails, slots, plan)
    else:
        reference(inputs, tails, slots, plan)
