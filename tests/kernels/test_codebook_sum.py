"""The kernel that sums codebook rows against the plain formula."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.codebook_sum import cases
from ttsbench.kernels.codebook_sum.reference import codebook_sum as reference

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-7}
"""Float32 to the order of 16 additions; bfloat16 to the last of its bits, which the interpreter cuts off."""


def check(device: str, chosen=cases.SMALL) -> None:
    for case in chosen:
        for dtype in TOLERANCE:
            compare(case, device, dtype)


def compare(case: cases.Case, device: str, dtype: torch.dtype) -> None:
    from ttsbench.kernels.codebook_sum.triton import codebook_sum

    codes, table, out = cases.inputs(case, device, dtype)
    codebook_sum(codes, table, out)
    want = torch.empty_like(out)
    reference(codes, table, want)
    error = f"{case.name}, {dtype}: {float((out.float() - want.float()).abs().max()):.1e}"
    assert torch.allclose(out.float(), want.float(), rtol=TOLERANCE[dtype], atol=1e-5), error


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when a book is left out, a row of another book is read, for a code past its own too, or the end of the width
    is not masked.
    """
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    check("cuda", cases.SMALL + cases.RELEASED)
