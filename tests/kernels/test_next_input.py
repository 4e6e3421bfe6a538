"""The kernel of the next input against the formula in float64; reports are integers and equal."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.next_input import ENDED, LAST, SOUND, cases
from ttsbench.kernels.next_input.cases import Inputs
from ttsbench.kernels.next_input.reference import next_input as reference

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2**-7}
"""Of the largest input. Float32: a sum of 17 terms. Bfloat16: summed in float32 and rounded once to eight bits, which
the interpreter cuts off where a GPU takes the nearest."""


def check(device: str, chosen: tuple[cases.Case, ...] = cases.SMALL) -> None:
    for case in chosen:
        for dtype in TOLERANCE:
            compare(case, device, dtype)


def compare(case: cases.Case, device: str, dtype: torch.dtype) -> None:
    from ttsbench.kernels.next_input.triton import next_input

    given = cases.inputs(case, device, dtype)
    want = widened(given)
    reference(*vars(want).values())
    next_input(*vars(given).values())
    real = slice(len(given.codes) - case.padding)
    assert torch.equal(given.report[real], want.report[real]), f"{case.name}, {dtype}: the report differs"
    # Padding rows write one place, whoever comes last; all others are untouched or a real row's.
    error = (given.inputs[:-1].double() - want.inputs[:-1]).abs().max() / want.inputs[:-1].abs().max()
    assert error <= TOLERANCE[dtype], f"{case.name}, {dtype}: {error:.1e}"


def widened(given: Inputs) -> Inputs:
    """The same values in float64, in memory of their own."""
    rows = replace(given.rows, pads=given.rows.pads.double())
    return replace(
        given, table=given.table.double(), rows=rows, inputs=given.inputs.double(), report=given.report.clone()
    )


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when a codebook's offset is another's, a pad is taken where text waits, columns past the width are written,
    or the report is left to a tile that is not there.
    """
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    check("cuda", cases.SMALL + cases.RELEASED)


@pytest.mark.parametrize("case", cases.SMALL, ids=lambda case: case.name)
def test_the_reference_row_by_row(case: cases.Case) -> None:
    """In plain Python. Red if text is taken from anywhere but the place that is written, if limits are of rows instead
    of slots, or if the last frame is the one after the limit.
    """
    given = cases.inputs(case, "cpu", torch.float64)
    rows, before = given.rows, given.inputs.clone()
    reference(*vars(given).values())
    for row in range(case.rows - case.padding):
        slot, place = int(rows.slots[row]), int(rows.inputs[row])
        embedded = sum(given.table[int(given.codes[row, b]) + int(given.offsets[b])] for b in range(case.books))
        text = before[place] if rows.has_text[row] else rows.pads[slot]
        assert torch.allclose(given.inputs[place], embedded + text, rtol=0, atol=1e-12)
        flags = SOUND * bool(given.sound[row]) + ENDED * bool(given.codes[row, 0] == rows.eos)
        flags += LAST * bool(rows.frames[row] + 1 >= rows.limits[slot])
        assert given.report[row].tolist() == [*given.codes[row].tolist(), flags, slot]
    others = torch.ones(len(before), dtype=torch.bool)
    others[rows.inputs] = False
    assert torch.equal(given.inputs[others], before[others])
