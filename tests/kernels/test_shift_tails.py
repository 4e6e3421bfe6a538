"""The kernel that shifts the tails against the plain formula: it only moves, so every bit agrees."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.shift_tails import cases
from ttsbench.kernels.shift_tails.reference import shift_tails as reference


def check(device: str, chosen=cases.SMALL) -> None:
    for case in chosen:
        for dtype in (torch.float32, torch.bfloat16):
            compare(case, device, dtype)


def compare(case: cases.Case, device: str, dtype: torch.dtype) -> None:
    from ttsbench.kernels.shift_tails.triton import shift_tails

    inputs, tails, slots, plan = cases.inputs(case, device, dtype)
    want = tails.clone()
    reference(inputs, want, slots, plan)
    assert not torch.equal(tails, want)
    shift_tails(inputs, tails, slots, plan)
    wrong = int((tails != want).sum())
    assert wrong == 0, f"{case.name}, {dtype}: {wrong} of {tails.numel()} elements differ"


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when a row is written before it is read, a row or channel is left out, or a slot is another's."""
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    """Repeated, as a row overwritten before it is read is a matter of time there."""
    for _ in range(20):
        check("cuda")
    check("cuda", cases.RELEASED)
