"""A causal convolution over one frame of many streams, with the residual before and the activation behind it.

On a CPU plain torch, on a GPU one Triton kernel. `reference.py` says what it computes.
"""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.causal_conv.packed import Activation, ConvWeights, Gelu, SnakeWeights
from ttsbench.kernels.causal_conv.reference import causal_conv as reference

__all__ = ["ConvWeights", "Gelu", "SnakeWeights", "causal_conv"]


def causal_conv(
    x: Tensor,
    conv: ConvWeights,
    residual: Tensor | None = None,
    activation: Activation | None = None,
    plain: Tensor | None = None,
    active: Tensor | None = None,
) -> None:
    """Writes conv(x) + bias + residual to `plain`, and its activation to `active`, where given; `x` holds its past."""
    if x.is_cuda:
        from ttsbench.kernels.causal_conv.triton import causal_conv as kernel

        kernel(x, conv, residual, activation, plain, active)
    else:
        reference(x, conv, residual, activation, plain, active)
