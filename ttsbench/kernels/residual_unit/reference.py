"""A residual unit: out = residual + W2 snake(conv(x) + b1) + b2, where conv is causal and dilated and W2 is pointwise.

`x` has its Snake already; what lies between the two products is rounded to its dtype, as when they run apart. Shapes: B
rows, n positions, C channels, S slots, T = (taps - 1) * dilation tail rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.kernels.causal_conv.packed import ConvWeights, SnakeWeights
from ttsbench.kernels.causal_conv.reference import causal_conv


def residual_unit(
    x: Tensor,
    tail: Tensor,
    slots: Tensor,
    dilated: ConvWeights,
    between: SnakeWeights,
    pointwise: ConvWeights,
    residual: Tensor,
    activation: SnakeWeights,
    plain: Tensor | None,
    active: Tensor,
) -> None:
    """Writes the sum to `plain` [B, n, C], where given, and its Snake to `active` [B, n, C].

    `x` and `residual` [B, n, C]; `tail` [S, T, C] is read in the rows `slots` [B] int64 and left as it is.
    """
    middle = torch.empty_like(x)
    causal_conv(x, tail, slots, dilated, activation=between, active=middle)
    causal_conv(middle, None, slots, pointwise, residual, activation, plain, active)
