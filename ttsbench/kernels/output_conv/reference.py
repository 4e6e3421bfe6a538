"""pcm[i] = clamp(bias + sum over taps t and channels c of x[i + t, c] * weight[t, c], -1, 1)."""

from __future__ import annotations

import torch
from torch import Tensor


def output_conv(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """PCM [B, n] in the dtype of `weight` [taps, C] and `bias` [1], float32 or float64.

    `x` [taps - 1 + n, B, C], time first, begins with the past.
    """
    n = x.shape[0] - len(weight) + 1
    x = x.to(weight.dtype)
    sums = torch.stack([x[t : t + n] @ row for t, row in enumerate(weight)]).sum(0)
    return (sums + bias).clamp(-1, 1).T.contiguous()
