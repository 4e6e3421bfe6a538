"""The gate's kernel against the formula in float64."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.swiglu import cases
from ttsbench.kernels.swiglu.reference import silu_mul as reference

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2**-7}
"""Of each output. Float32: an exponential and three roundings. Bfloat16: computed in float32 and rounded once to eight
bits, which the interpreter cuts off where a GPU takes the nearest."""


def check(device: str, chosen: tuple[cases.Case, ...] = cases.SMALL) -> None:
    for case in chosen:
        for dtype in TOLERANCE:
            compare(case, device, dtype)


def compare(case: cases.Case, device: str, dtype: torch.dtype) -> None:
    from ttsbench.kernels.swiglu.triton import silu_mul

    gate_up = cases.inputs(case, device, dtype)
    got, want = silu_mul(gate_up), reference(gate_up.double())
    assert got.dtype == dtype
    # A GPU's division gives 0 for a divisor above 2^126, which is what a saturated gate's exponential is.
    nothing = float(gate_up.double().abs().max()) ** 2 * 2.0**-126
    # Its exponential is a power of two of a product that was rounded: off by the gate's size times 2^-23.
    gate = gate_up.double().abs().chunk(2, dim=1)[0]
    error, allowed = (got.double() - want).abs(), (TOLERANCE[dtype] + 2.0**-23 * gate) * want.abs() + nothing
    assert (error <= allowed).all(), f"{case.name}, {dtype}: {float((error / allowed).max()):.2f} of what is allowed"


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when gate and up change places, a program's columns are left out, or a large negative gate gives NaN."""
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    check("cuda", cases.SMALL + cases.RELEASED)
