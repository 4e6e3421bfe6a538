"""A narrow residual unit in one kernel: what lies between its two products never leaves the multiprocessor.

On a CPU plain torch, on a GPU one Triton kernel. `reference.py` says what it computes.
"""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.causal_conv.packed import ConvWeights, SnakeWeights
from ttsbench.kernels.residual_unit.reference import residual_unit as reference
from ttsbench.kernels.residual_unit.tiles import fused

__all__ = ["fused", "residual_unit"]


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
    """Writes the unit's sum to `plain`, where given, and its Snake to `active`. Where `fused` is true."""
    if x.is_cuda:
        from ttsbench.kernels.residual_unit.triton import residual_unit as kernel

        kernel(x, dilated, between, pointwise, residual, activation, plain, active)
    else:
        reference(x, dilated, between, pointwise, residual, activation, plain, active)
