"""A causal convolution over one frame of many streams, with the residual before and the Snake behind it.

On a CPU plain torch, on a GPU one Triton kernel. `reference.py` says what it computes.
"""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.causal_conv.packed import ConvWeights, SnakeWeights
from ttsbench.kernels.causal_conv.reference import causal_conv as reference

__all__ = ["ConvWeights", "SnakeWeights", "causal_conv"]


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
    """Writes conv(x after its slot's tail) + bias + residual to `plain`, and its Snake to `active`, where given."""
    if x.is_cuda:
        from ttsbench.kernels.causal_conv.triton import causal_conv as kernel

        kernel(x, tail, slots, conv, residual, activation, plain, active)
    else:
        reference(x, tail, slots, conv, residual, activation, plain, active)
