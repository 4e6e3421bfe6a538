"""The kernel of the convolution to PCM against the plain formula in float64."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.output_conv import cases
from ttsbench.kernels.output_conv.reference import output_conv as reference

TOLERANCE = 1e-5
"""PCM is float32 from inputs of either type: only the order of a few hundred additions differs."""


def check(device: str, chosen=cases.SMALL) -> None:
    for case in chosen:
        for dtype in (torch.float32, torch.bfloat16):
            compare(case, device, dtype)


def compare(case: cases.Case, device: str, dtype: torch.dtype) -> None:
    from ttsbench.kernels.output_conv.triton import output_conv

    x, weight, bias = cases.inputs(case, device, dtype)
    got = output_conv(x, weight, bias)
    want = reference(x.double(), weight.double(), bias.double())
    assert got.dtype == torch.float32
    error = (got - want).abs().max()
    assert error < TOLERANCE, f"{case.name}, {dtype}: {error:.1e}"
    assert case.length == 1 or want.abs().max() == 1, "no sample reaches the clamp"


def check_nan(device: str) -> None:
    """One NaN of one stream reaches the samples that see it, and no clamp makes a number of it."""
    from ttsbench.kernels.output_conv.triton import output_conv

    x, weight, bias = cases.inputs(cases.SMALL[-1], device, torch.float32)
    x[40, -1, 0] = torch.nan
    pcm = output_conv(x, weight, bias)
    want = reference(x.double(), weight.double(), bias.double())
    assert want.isnan().any()
    assert torch.equal(pcm.isnan(), want.isnan())


def test_nan_stays_nan_in_the_interpreter() -> None:
    """Red when the clamp takes the number of a NaN and a number, as plain minimum and maximum do on a GPU."""
    run_interpreted(check_nan)


@pytest.mark.gpu
def test_nan_stays_nan_on_a_gpu() -> None:
    check_nan("cuda")


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when a tap is one position off, a stream another's, the clamp is left out or an edge unmasked."""
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    check("cuda", cases.SMALL + cases.RELEASED)
