"""LayerNorm over the channels of a causal depthwise convolution: the way into a ConvNeXt block.

y[i, c] = bias[c] + sum over taps t of x[i - (taps - 1) + t, c] * weight[t, c]
out[i] = (y[i] - mean) / sqrt(variance + eps) * gain + shift, both over the channels
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.dwconv_norm.packed import DepthwiseNorm


def dwconv_norm(x: Tensor, tail: Tensor, slots: Tensor, weights: DepthwiseNorm) -> Tensor:
    """[B, n, C] of `x` [B, n, C] behind the rows `slots` [B] int64 of `tail` [S, taps - 1, C], which stays as it is."""
    n, wide = x.shape[1], weights.bias.dtype
    full = torch.cat((tail[slots], x), dim=1).to(wide)
    y = weights.bias + sum(full[:, t : t + n] * row for t, row in enumerate(weights.weight))
    return F.layer_norm(y, y.shape[-1:], weights.gain, weights.shift, weights.eps).to(x.dtype)
