"""A residual unit: out = residual + W2 snake(conv(x) + b1) + b2, where conv is causal and dilated and W2 is pointwise.

`x` has its Snake already; what lies between the two products is rounded to its dtype, as when they run apart. Time
comes first, and `x` begins with the past. Shapes: B streams, n positions, C channels, T = (taps - 1) * dilation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.kernels.causal_conv.packed import ConvWeights, SnakeWeights
from ttsbench.kernels.causal_conv.reference import causal_conv


def residual_unit(
    x: Tensor,
    dilated: ConvWeights,
    between: SnakeWeights,
    pointwise: ConvWeights,
    residual: Tensor,
    activation: SnakeWeights,
    plain: Tensor | None,
    active: Tensor,
) -> None:
    """Writes the sum to `plain`, where given, and its Snake to `active`, from `x` [T + n, B, C], all else [n, B, C]."""
    middle = torch.empty_like(active)
    causal_conv(x, dilated, activation=between, active=middle)
    causal_conv(middle, pointwise, residual, activation, plain, active)
