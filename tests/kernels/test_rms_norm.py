"""The norm's kernel against the formula in float64."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.rms_norm import cases
from ttsbench.kernels.rms_norm.reference import add_rms_norm as reference

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 3 * 2**-8}
"""Of the largest output of a row. Float32: one sum of up to 2,048 squares and four roundings of 6e-8. Bfloat16: sum,
norm and product are each rounded to eight bits, by up to 2**-8 three times."""


def check(
    device: str,
    chosen: tuple[cases.Case, ...] = cases.SMALL,
    dtypes: tuple[torch.dtype, ...] = (torch.float32,),  # the interpreter cannot multiply in bfloat16
) -> None:
    for case in chosen:
        for dtype in dtypes:
            compare(case, device, dtype)


def compare(case: cases.Case, device: str, dtype: torch.dtype) -> None:
    from ttsbench.kernels.rms_norm.triton import add_rms_norm

    given = cases.inputs(case, device, dtype)
    got = add_rms_norm(*vars(given).values())
    residual = None if given.residual is None else given.residual.double()
    want = reference(given.x.double(), residual, given.weight.double(), given.eps)
    for what, ours, right in zip(("normed", "total"), got, want, strict=True):
        assert ours.dtype == dtype
        error = ((ours.double() - right).abs().amax(1) / right.abs().amax(1)).max()
        assert error <= TOLERANCE[dtype], f"{case.name}, {dtype}, {what}: {error:.1e}"


def check_gathered(device: str) -> None:
    """Rows of a longer tensor, one of them twice: the norm that they have when they stand alone, and the rows."""
    from ttsbench.kernels.rms_norm.triton import add_rms_norm, gathered_rms_norm

    x, _, weight, eps = vars(cases.inputs(cases.Case("", 9, 37), device, torch.float32)).values()
    where = torch.tensor([7, 0, 7, 3], device=device)
    normed, rows = gathered_rms_norm(x, where, weight, eps)
    assert torch.equal(rows, x[where])
    assert torch.equal(normed, add_rms_norm(x[where], None, weight, eps)[0])


def test_gathered_rows_have_their_own_norm_in_the_interpreter() -> None:
    """Red if a row is taken or left by its number in the result."""
    run_interpreted(check_gathered)


@pytest.mark.gpu
def test_gathered_rows_have_their_own_norm_on_a_gpu() -> None:
    check_gathered("cuda")


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when columns past the width enter the mean, eps is left out, or the residual is added after the norm."""
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    check("cuda", cases.SMALL + cases.RELEASED, tuple(TOLERANCE))


def test_the_reference_is_the_published_order_of_casts() -> None:
    """Bfloat16: the sum is rounded before the norm, and the normed row before the weight. Red if it is computed in
    float32 throughout, which is closer to the formula and not what the checkpoints were trained with.
    """
    given = cases.inputs(cases.Case("", 8, 64), "cpu", torch.bfloat16)
    assert given.residual is not None
    total = given.x + given.residual
    wide = total.float()
    normed = (wide * (wide.square().mean(1, keepdim=True) + given.eps).rsqrt()).bfloat16() * given.weight
    got = reference(given.x, given.residual, given.weight, given.eps)
    assert torch.equal(got[1], total)
    assert torch.equal(got[0], normed)
