"""The products of a transformer layer, each with what stands between it and the next in its own kernel."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.fused_linear import reference
from ttsbench.kernels.fused_linear.normed import Normed

__all__ = ["Normed", "gated_linear", "is_fused", "linear", "residual_linear"]

MOST_ROWS = 256
"""Above, a product is bound by the matrix units, which the library's keep busier; a decode step has at most 128 rows,
and the first pass of the code predictor two for each of them."""

LIBRARY_ROWS = range(24, 48)
LIBRARY_WIDTH = 2048
"""At so many rows the library's products are faster (3,083 against 3,239 us a frame of 32 rows); from then on for
weights of at least so many inputs and outputs, the 1.7B talker's (1,934 against 2,294 us a step of 128 rows)."""


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
    if not weight.is_cuda or rows > MOST_ROWS or rows in LIBRARY_ROWS:
        return False
    return rows < LIBRARY_ROWS.start or min(weight.shape) < LIBRARY_WIDTH
