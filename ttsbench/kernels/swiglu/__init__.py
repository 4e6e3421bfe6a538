"""The gate of SwiGLU over one packed product."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.swiglu.reference import silu_mul as reference

__all__ = ["silu_mul"]


def silu_mul(gate_up: Tensor) -> Tensor:
    """silu(gate) * up [N, I] of packed rows `gate_up` [N, 2 I], gate first. Formula: `reference.py`."""
    if gate_up.is_cuda:
        from ttsbench.kernels.swiglu.triton import silu_mul as kernel

        return kernel(gate_up)
    return reference(gate_up)
