"""The products of a transformer layer, each with what stands between it and the next in its own kernel."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.fused_linear import reference
from ttsbench.kernels.fused_linear.normed import Normed
from ttsbench.kernels.invariant import is_fixed

__all__ = ["FEW", "TILE", "Normed", "gated_linear", "is_fused", "linear", "residual_linear"]

MOST_ROWS, MOST_WIDE_ROWS = 256, 128
"""Above, a product is bound by the matrix units, which the library's keep busier. A decode step has at most 128 rows,
and the first pass of the code predictor two for each of them; weights of at least `WIDE` inputs and outputs, the 1.7B
talker's, have more rows in steps with prompts alone."""

WIDE = 2048

FEW, TILE = 16, 64
"""Beyond `FEW` rows tiles have `TILE`. One that is not full takes longer than one that is, and then the library's
product of a wide weight is as fast or faster."""


def linear(x: Tensor | Normed, weight: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """x W^T + b: [N, M] from rows `x` [N, K], `weight` [M, K], `bias` [M]; into `out`, whose rows may stand apart."""
    normed = x if isinstance(x, Normed) else Normed(x)
    if is_fused(len(normed), weight):
        from ttsbench.kernels.fused_linear import triton

        return triton.linear(normed, weight, bias, out)
    result = reference.linear(normed.finished(), weight, bias)
    return result if out is None else out.copy_(result)


def gated_linear(x: Normed, weight: Tensor) -> Tensor:
    """silu(gate) * up: [N, M] from rows `x` [N, K] and `weight` [2 M, K], gate first."""
    if is_fused(len(x), weight):
        from ttsbench.kernels.fused_linear import triton

        return triton.gated_linear(x, weight)
    return reference.gated_linear(x.finished(), weight)


def residual_linear(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> tuple[Normed, Tensor]:
    """(norm(total), total = x W^T + residual), rows of M, from rows `x` [N, K], `weight` [M, K], `residual` [N, M] and
    the norm's weight [M].
    """
    if is_fused(len(x), weight):
        from ttsbench.kernels.fused_linear import triton

        return triton.residual_linear(x, weight, residual, norm, eps)
    rows, total = reference.residual_linear(x, weight, residual, norm, eps)
    return Normed(rows), total


def is_fused(rows: int, weight: Tensor) -> bool:
    """Whether a product of so many rows finishes their norm by itself (`Normed.squares`)."""
    if is_fixed():
        return weight.is_cuda
    if not weight.is_cuda or rows > MOST_ROWS:
        return False
    return min(weight.shape) < WIDE or rows <= FEW or (rows <= MOST_WIDE_ROWS and rows % TILE == 0)
