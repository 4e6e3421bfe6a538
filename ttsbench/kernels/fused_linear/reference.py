"""The products of a transformer layer with what stands between them, each as its own operation.

    linear            x W^T + b
    gated_linear      silu(x G^T) * (x U^T), the weight holding G over U
    residual_linear   total = x W^T + residual, and the RMSNorm of total that the next product takes

Shapes: N rows, K width of a row, M outputs.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.rms_norm import add_rms_norm
from ttsbench.kernels.swiglu import silu_mul


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """[N, M] from rows `x` [N, K], `weight` [M, K] and `bias` [M]."""
    return F.linear(x, weight, bias)


def gated_linear(x: Tensor, weight: Tensor) -> Tensor:
    """[N, M] from rows `x` [N, K] and `weight` [2 M, K], gate first."""
    return silu_mul(F.linear(x, weight))


def residual_linear(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(normed, total), both [N, M], from rows `x` [N, K], `weight` [M, K], `residual` [N, M] and norm weight [M]."""
    return add_rms_norm(F.linear(x, weight), residual, norm, eps)
