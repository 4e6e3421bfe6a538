"""The fused residual unit against the plain formula in float64."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.causal_conv.tiles import Tile
from ttsbench.kernels.residual_unit import cases, fused
from ttsbench.kernels.residual_unit.cases import Case, Inputs
from ttsbench.kernels.residual_unit.reference import residual_unit as reference
from ttsbench.kernels.residual_unit.tiles import columns

TOLERANCE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Of the largest output. Float32: as in `test_causal_conv.py`. Narrower types round twice: what lies between the
products, each of up to 192 roundings of half a unit that partly cancel in the second sum, and the output."""


def widened(value):
    """The same values in float64."""
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if not is_dataclass(value):
        return value
    return replace(value, **{field.name: widened(getattr(value, field.name)) for field in fields(value)})


def compare(case: Case, device: str, dtype: torch.dtype, tile: Tile | None = None) -> None:
    from ttsbench.kernels.residual_unit.triton import residual_unit

    given = cases.inputs(case, device, dtype)
    want: Inputs = widened(given)
    want.run(reference)
    given.run(residual_unit, tile=tile)
    for got, right in ((given.plain, want.plain), (given.active, want.active)):
        if got is not None and right is not None:
            error = (got.double() - right).abs().max() / right.abs().max()
            assert error <= TOLERANCE[dtype], f"{case.name}, {tile}, {dtype}: {error:.1e}"


def check(device: str) -> None:
    for case in cases.SMALL:
        split = columns(case.channels)
        assert split is not None
        for terms in (16, 32):  # a step within one tap, and one across taps of 16 and of 48 channels
            compare(case, device, torch.float32, Tile(16, *split, terms, warps=4, stages=2))
        compare(case, device, torch.float16, Tile(16, *split, 16, warps=4, stages=2))


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when a tap reads one position off, one of the four parts of the second product takes another's channels, the
    residual or a Snake is missing, or rows past the end are written."""
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    check("cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 3, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_released_units_on_a_gpu(rows: int, dtype: torch.dtype) -> None:
    for case in cases.released(rows):
        compare(case, "cuda", dtype)


def test_widths_that_are_not_two_powers_of_two_are_left_to_two_kernels() -> None:
    """Red when a width is taken that no pair of blocks covers."""
    assert [columns(c) for c in (16, 24, 36, 48, 96, 192, 80)] == [
        (16, 0), None, None, (32, 16), (64, 32), (128, 64), None,
    ]  # fmt: skip
    assert [fused(640, channels) for channels in (192, 384, 36)] == [True, False, False]
