"""A convolution's past: put before its frame, and taken from the frame's end when it is over.

All convolutions at once, each in its own part of two flat tensors (`packed.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.kernels.shift_tails.packed import TailPlan


def place_tails(inputs: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan) -> None:
    """The first T positions of `inputs` [input_size] become the `tails` [tail_size] of the slots `slots` [B] int64."""
    for number, site in enumerate(plan.sites):
        x = plan.inputs(inputs, number, len(slots))
        x[: site.tail] = plan.tails(tails, number)[slots].transpose(0, 1)


def shift_tails(inputs: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan, position: Tensor) -> None:
    """The last T positions of `inputs` become the tails of `slots`, whose `position` [S] int64 goes up by one."""
    for number, site in enumerate(plan.sites):
        x = plan.inputs(inputs, number, len(slots))
        plan.tails(tails, number)[slots] = x[-site.tail :].transpose(0, 1)
    position.index_add_(0, slots, torch.ones_like(slots))
