"""A convolution's tail after a frame: the last T rows of the old tail followed by the frame's inputs.

All convolutions at once, each in its own part of two flat tensors (`packed.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.kernels.shift_tails.packed import TailPlan


def shift_tails(inputs: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan) -> None:
    """Advance the slots `slots` [B] int64 of `tails` [tail_size] by one frame's `inputs` [input_size] of B rows."""
    for number, site in enumerate(plan.sites):
        tail, x = plan.tails(tails, number), plan.inputs(inputs, number, len(slots))
        tail[slots] = torch.cat((tail[slots], x), dim=1)[:, -site.tail :]
