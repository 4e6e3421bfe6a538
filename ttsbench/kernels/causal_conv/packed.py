"""Weights of a causal convolution as the kernel reads them.

Shapes: C input channels, N outputs per position.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class ConvWeights:
    """`weight` [taps * C, N] in the activations' dtype, oldest tap first; `bias` [N] in float32 (float64 of float64).

    `tickets` int32 are zeros that the kernel counts with and leaves as zeros: where a product is split over its terms,
    the last program to finish a tile sums its parts. Two streams of a device must not run one convolution at a time.
    """

    weight: Tensor
    bias: Tensor
    tickets: Tensor
    taps: int
    dilation: int = 1

    @property
    def channels(self) -> int:
        return self.weight.shape[0] // self.taps

    @property
    def width(self) -> int:
        return self.weight.shape[1]

    @property
    def tail(self) -> int:
        """Inputs of the past that an output reads."""
        return (self.taps - 1) * self.dilation


TICKETS = 1024
"""At least the tiles of a product that is worth splitting."""


@dataclass(frozen=True)
class SnakeWeights:
    """x + gain * sin(frequency * x)^2, both [N] in float32 (float64 of float64)."""

    frequency: Tensor
    gain: Tensor


@dataclass(frozen=True)
class Gelu:
    """x times the normal distribution up to x; it has no weights."""


Activation = SnakeWeights | Gelu
