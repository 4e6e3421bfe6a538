"""The convolution that gives PCM: many channels to one, and the clamp."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.output_conv.reference import output_conv as reference

__all__ = ["output_conv"]


def output_conv(x: Tensor, tail: Tensor, slots: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """PCM [B, n] in [-1, 1] of `x` [B, n, C] after its slot's tail [S, T, C]. Formula: `reference.py`."""
    if x.is_cuda:
        from ttsbench.kernels.output_conv.triton import output_conv as kernel

        return kernel(x, tail, slots, weight, bias)
    return reference(x, tail, slots, weight, bias)
