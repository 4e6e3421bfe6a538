"""The matrix-vector kernel against the library's product in float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.linear import cases, linear

TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 2**-8}
"""Of the largest output. Float32: partial sums of at most 48 terms a thread, then a tree. Bfloat16: one rounding."""


def check(
    device: str,
    chosen: tuple[cases.Case, ...] = cases.SMALL,
    dtypes: tuple[torch.dtype, ...] = (torch.float32,),  # the interpreter cannot multiply in bfloat16
) -> None:
    for case in chosen:
        for dtype in dtypes:
            compare(case, device, dtype)


def compare(case: cases.Case, device: str, dtype: torch.dtype) -> None:
    from ttsbench.kernels.linear.triton import matvec

    x, weight, bias = cases.inputs(case, device, dtype)
    got = matvec(x, weight, bias)
    want = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert (got.shape, got.dtype) == (want.shape, dtype)
    error = (got.double() - want).abs().max() / want.abs().max()
    assert error <= TOLERANCE[dtype], f"{case.name}, {dtype}: {error:.1e}"


def test_the_kernel_gives_the_product_in_the_interpreter() -> None:
    """Red when a term or an output past the last block is left out, or the bias is."""
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_product_on_a_gpu() -> None:
    check("cuda", cases.SMALL + cases.RELEASED, (torch.float32, torch.bfloat16))


def test_a_cpu_and_several_rows_take_the_librarys_product() -> None:
    """Red when a product of two rows loses one."""
    x, weight = torch.randn(2, 24), torch.randn(7, 24)
    assert torch.equal(linear(x, weight), F.linear(x, weight))
