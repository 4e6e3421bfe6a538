"""LayerNorm over the channels of a causal depthwise convolution: the way into a ConvNeXt block.

y[i, c] = bias[c] + sum over taps t of x[i + t, c] * weight[t, c]
out[i] = (y[i] - mean) / sqrt(variance + eps) * gain + shift, both over the channels
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.dwconv_norm.packed import DepthwiseNorm


def dwconv_norm(x: Tensor, weights: DepthwiseNorm) -> Tensor:
    """[n, B, C] of `x` [taps - 1 + n, B, C], time first, which begins with the past."""
    n, full = x.shape[0] - weights.tail, x.to(weights.bias.dtype)
    y = weights.bias + sum(full[t : t + n] * row for t, row in enumerate(weights.weight))
    return F.layer_norm(y, y.shape[-1:], weights.gain, weights.shift, weights.eps).to(x.dtype)
