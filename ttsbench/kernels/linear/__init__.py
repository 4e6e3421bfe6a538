"""Products with a weight matrix: the library's, but for a single row on a GPU."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

__all__ = ["linear"]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b: [N, M] from rows `x` [N, D], `weight` [M, D] and `bias` [M].

    One row is a matrix-vector product, bound by reading the weight once. Over the released shapes the library reaches 8
    to 76 % of the memory bandwidth with it, `triton.py` 30 to 85 %, and more at each shape (docs/measurements.md). The
    reference is `F.linear` itself.
    """
    if x.is_cuda and len(x) == 1:
        from ttsbench.kernels.linear.triton import matvec

        return matvec(x, weight, bias)
    return F.linear(x, weight, bias)
