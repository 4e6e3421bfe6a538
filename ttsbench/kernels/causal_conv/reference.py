"""out[i] = bias + sum over taps t of x[i - (taps - 1 - t) * dilation] @ W[t], then residual, then Snake.

Inputs before the call's first are rows of a stream's tail. Shapes: B rows, n positions, C channels, N outputs per
position (an upsampler by r has N = r * its channels), S slots, T = (taps - 1) * dilation tail rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.kernels.causal_conv.packed import ConvWeights, SnakeWeights


def snake(x: Tensor, weights: SnakeWeights) -> Tensor:
    """x + gain * sin(frequency * x)^2 per output column."""
    return x + (x * weights.frequency).sin().square() * weights.gain


def causal_conv(
    x: Tensor,
    tail: Tensor | None,
    slots: Tensor,
    conv: ConvWeights,
    residual: Tensor | None = None,
    activation: SnakeWeights | None = None,
    plain: Tensor | None = None,
    active: Tensor | None = None,
) -> None:
    """Writes the sum to `plain` and its Snake to `active` [B, n, N], where they are given.

    `x` [B, n, C] is already activated; `tail` [S, T, C] is read in the rows `slots` [B] int64 and left as it is.
    """
    n = x.shape[1]
    full = x if tail is None else torch.cat((tail[slots], x), dim=1)
    windows = [full[:, t * conv.dilation : t * conv.dilation + n] for t in range(conv.taps)]
    out = torch.cat(windows, dim=2).to(conv.bias.dtype) @ conv.weight.to(conv.bias.dtype) + conv.bias
    if residual is not None:
        out = out + residual
    if plain is not None:
        plain.copy_(out)
    if active is not None:
        assert activation is not None
        active.copy_(snake(out, activation))
