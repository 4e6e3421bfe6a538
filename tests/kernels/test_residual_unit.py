"""The fused residual unit against the plain formula in float64."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.causal_conv.reference import causal_conv
from ttsbench.kernels.causal_conv.tiles import Tile
from ttsbench.kernels.residual_unit import cases, fused
from ttsbench.kernels.residual_unit.cases import Case, Inputs
from ttsbench.kernels.residual_unit.reference import residual_unit as reference
from ttsbench.kernels.residual_unit.tiles import FEWEST, TILES

TOLERANCE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Of the largest output. Float32: as in `test_causal_conv.py`. Narrower types round twice: what lies between the
products, as the formula does here too, and the output. An input of the second Snake that is off by a last bit of what
lies between is off by up to 30 times that behind it, as its frequency and gain are up to 30: 0.02 was seen."""


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
    rounded(want, dtype)
    given.run(residual_unit, tile=tile)
    for got, right in ((given.plain, want.plain), (given.active, want.active)):
        if got is not None and right is not None:
            error = (got.double() - right).abs().max() / right.abs().max()
            assert error <= TOLERANCE[dtype], f"{case.name}, {tile}, {dtype}: {error:.1e}"


def rounded(want: Inputs, dtype: torch.dtype) -> None:
    """The formula in float64, but for what lies between the products."""
    middle = torch.empty_like(want.active)
    causal_conv(want.x, want.dilated, activation=want.between, active=middle)
    causal_conv(
        middle.to(dtype).double(), want.pointwise, want.residual, want.activation, want.plain, want.active
    )  # fmt: skip


def check(device: str) -> None:
    for case in cases.SMALL:
        for columns, extra in ((64, 0), (32, 16)):
            if columns + extra < case.channels:
                continue
            for terms in (16, 32):  # a step that ends with the channels, and one that goes past them
                compare(case, device, torch.float32, Tile(16, columns, extra, terms, 4, stages=2, blocks=True))
            compare(case, device, torch.float16, Tile(16, columns, extra, 16, warps=4, stages=2, blocks=True))


def test_the_reference_is_two_convolutions() -> None:
    """Red when the reference leaves a Snake or the residual out: the checks above go around it."""
    given = cases.inputs(cases.SMALL[1], "cpu", torch.float64)
    given.run(reference)
    want = cases.inputs(cases.SMALL[1], "cpu", torch.float64)
    rounded(want, torch.float64)
    assert given.plain is not None
    assert torch.equal(given.plain, want.plain)
    assert torch.equal(given.active, want.active)


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


def test_only_what_fills_the_gpu_is_fused() -> None:
    """Red when a few rows go to a few programs that read all weights each, or a tile does not hold its channels."""
    assert [fused(rows, 192) for rows in (640, FEWEST)] == [False, True]
    assert not fused(FEWEST, 384)
    assert all(tile.width >= channels and tile.blocks for channels, tile in TILES.items())
