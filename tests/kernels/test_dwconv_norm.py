"""The depthwise convolution's kernel against the plain formula in float64."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.dwconv_norm import DepthwiseNorm, cases
from ttsbench.kernels.dwconv_norm.reference import dwconv_norm as reference

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-7}
"""Outputs are of size 1 to 10. Bfloat16 agrees to the last of its bits, which the interpreter cuts off."""


def widened(weights: DepthwiseNorm) -> DepthwiseNorm:
    taps, bias, gain, shift = (t.double() for t in (weights.weight, weights.bias, weights.gain, weights.shift))
    return DepthwiseNorm(taps, bias, gain, shift, weights.eps)


def check(device: str, chosen=cases.SMALL) -> None:
    for case in chosen:
        for dtype in TOLERANCE:
            compare(case, device, dtype)


def compare(case: cases.Case, device: str, dtype: torch.dtype) -> None:
    from ttsbench.kernels.dwconv_norm.triton import dwconv_norm

    x, weights = cases.inputs(case, device, dtype)
    got = dwconv_norm(x, weights)
    want = reference(x.double(), widened(weights))
    error = f"{case.name}, {dtype}: {float((got.double() - want).abs().max()):.1e}"
    assert torch.allclose(got.double(), want, rtol=TOLERANCE[dtype], atol=1e-5), error


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when a tap is one position off, a stream another's, or padding channels enter mean or variance."""
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    check("cuda", cases.SMALL + cases.RELEASED)
