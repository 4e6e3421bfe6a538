"""out[i] = bias + sum over taps t of x[i + t * dilation] @ W[t], then residual, then an activation.

`x` begins with the past, T = (taps - 1) * dilation positions, so output i lies under input i + T. Time comes first,
then the stream: a tap is the same number of matrix rows away for every position of every stream.
Shapes: B streams, n positions, C channels, N = r * C' outputs per position: r positions of C' channels each.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.causal_conv.packed import Activation, ConvWeights, Gelu, SnakeWeights


def snake(x: Tensor, weights: SnakeWeights) -> Tensor:
    """x + gain * sin(frequency * x)^2 per output column."""
    return x + (x * weights.frequency).sin().square() * weights.gain


def causal_conv(
    x: Tensor,
    conv: ConvWeights,
    residual: Tensor | None = None,
    activation: Activation | None = None,
    plain: Tensor | None = None,
    active: Tensor | None = None,
) -> None:
    """Writes the sum to `plain` and its activation to `active` [r n, B, C'], where they are given.

    `x` [T + n, B, C] is already activated; `residual` as `plain`.
    """
    n = x.shape[0] - conv.tail
    windows = [x[t * conv.dilation : t * conv.dilation + n] for t in range(conv.taps)]
    out = torch.cat(windows, dim=2).to(conv.bias.dtype) @ conv.weight.to(conv.bias.dtype) + conv.bias
    if residual is not None:
        out = out + merged(residual, n)
    if plain is not None:
        plain.copy_(phased(out, plain))
    if active is not None:
        assert activation is not None
        active.copy_(phased(F.gelu(out) if isinstance(activation, Gelu) else snake(out, activation), active))


def phased(x: Tensor, like: Tensor) -> Tensor:
    """[n, B, r * C'] as [r n, B, C']."""
    n, streams, _ = x.shape
    return x.view(n, streams, -1, like.shape[2]).transpose(1, 2).reshape(like.shape)


def merged(x: Tensor, n: int) -> Tensor:
    """[r n, B, C'] as [n, B, r * C']."""
    _, streams, channels = x.shape
    return x.view(n, -1, streams, channels).transpose(1, 2).reshape(n, streams, -1)
