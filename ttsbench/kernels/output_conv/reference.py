"""pcm[i] = clamp(bias + sum over taps t and channels c of x[i - (taps - 1) + t, c] * weight[t, c], -1, 1)."""

from __future__ import annotations

import torch
from torch import Tensor


def output_conv(x: Tensor, tail: Tensor, slots: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """PCM [B, n] in the dtype of `weight` [taps, C] and `bias` [1], float32 or float64.

    `x` [B, n, C] follows the rows `slots` [B] int64 of `tail` [S, taps - 1, C], which stays as it is.
    """
    n = x.shape[1]
    full = torch.cat((tail[slots], x), dim=1).to(weight.dtype)
    sums = torch.stack([full[:, t : t + n] @ row for t, row in enumerate(weight)]).sum(0)
    return (sums + bias).clamp(-1, 1)
