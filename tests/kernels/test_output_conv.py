"""The kernel of the convolution to PCM against the plain formula in float64."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.output_conv import cases
from ttsbench.kernels.output_conv.reference import output_conv as reference


def check(device: str, chosen=cases.SMALL) -> None:
    """PCM is float32 from inputs of either type: only the order of a few hundred additions differs."""
    from ttsbench.kernels.output_conv.triton import output_conv

    for case in chosen:
        for dtype in (torch.float32, torch.bfloat16):
            x, tail, slots, weight, bias = cases.inputs(case, device, dtype)
            got = output_conv(x, tail, slots, weight, bias)
            want = reference(x.double(), tail.double(), slots, weight.double(), bias.double())
            assert got.dtype == torch.float32
            assert (got - want).abs().max() < 1e-5, f"{case.name}, {dtype}"
            assert case.length == 1 or want.abs().max() == 1, "no sample reaches the clamp"


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when a tap is one position off, a tail row is another slot's, the clamp is left out or an edge unmasked."""
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    check("cuda", cases.SMALL + cases.RELEASED)
