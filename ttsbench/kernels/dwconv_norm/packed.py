"""Weights of the depthwise convolution and its norm, in float32 (float64 of a float64 model)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class DepthwiseNorm:
    """`weight` [taps, C], oldest tap first; `bias`, `gain` and `shift` [C]."""

    weight: Tensor
    bias: Tensor
    gain: Tensor
    shift: Tensor
    eps: float

    @property
    def tail(self) -> int:
        """Inputs of the past that an output reads."""
        return self.weight.shape[0] - 1
