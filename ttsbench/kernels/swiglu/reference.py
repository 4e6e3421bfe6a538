"""silu(gate) * up, silu(x) = x / (1 + exp(-x)) (SwiGLU, Shazeer 2020)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def silu_mul(gate_up: Tensor) -> Tensor:
    """[N, I] from packed rows [N, 2 I], gate first."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up
