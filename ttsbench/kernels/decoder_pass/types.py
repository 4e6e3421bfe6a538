"""What a pass runs over: the weights of a stack, laid out for few, large products.

Shapes: D width, F inner width, H query heads, K key-value heads, E head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ttsbench.kernels.attention import Heads


@dataclass(frozen=True)
class Layer:
    """One pre-norm decoder layer; a weight is [outputs, inputs]."""

    input_norm: Tensor
    """[D]"""
    qkv: Tensor
    """[(H + 2 K) * E, D]: queries, keys, values."""
    heads: Heads
    o: Tensor
    """[D, H * E]"""
    post_norm: Tensor
    """[D]"""
    gate_up: Tensor
    """[2 F, D]: gate, up."""
    down: Tensor
    """[D, F]"""


@dataclass(frozen=True)
class Stack:
    """Layers and the norm after the last; all norms, those of the heads too, have one epsilon."""

    layers: Sequence[Layer]
    norm: Tensor
    """[D]"""

    @property
    def eps(self) -> float:
        return self.layers[0].heads.eps
