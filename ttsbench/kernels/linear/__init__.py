"""Products with a weight matrix: the library's, but for a single row on a GPU."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

__all__ = ["linear"]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b: [N, M] from rows `x` [N, D], `weight` [M, D] and `bias` [M].

    One row is a matrix-vector product, bound by reading the weight once. The library runs it as a product of eight rows
    at a quarter to a half of the memory bandwidth; `triton.py` does better. The reference is `F.linear` itself.
    """
    if x.is_cuda and len(x) == 1:
        from ttsbench.kernels.linear.triton import matvec

        return matvec(x, weight, bias)
    return F.linear(x, weight, bias)
