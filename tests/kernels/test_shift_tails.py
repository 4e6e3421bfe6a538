"""The kernel that moves the tails against the plain formula: it only moves, so every bit agrees."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.shift_tails import cases
from ttsbench.kernels.shift_tails.reference import place_tails as place_reference
from ttsbench.kernels.shift_tails.reference import shift_tails as shift_reference


def check(device: str, chosen=cases.SMALL) -> None:
    from ttsbench.kernels.shift_tails.triton import place_tails, shift_tails

    for case in chosen:
        for dtype in (torch.float32, torch.bfloat16):
            inputs, tails, slots, plan = cases.inputs(case, device, dtype)
            want_inputs, want_tails = inputs.clone(), tails.clone()
            position = torch.arange(plan.num_slots, device=device)
            want_position = position.clone()
            place_reference(want_inputs, want_tails, slots, plan)
            assert not torch.equal(inputs, want_inputs)
            place_tails(inputs, tails, slots, plan)
            assert torch.equal(inputs, want_inputs), f"{case.name}, {dtype}"
            assert torch.equal(tails, want_tails), f"{case.name}, {dtype}"
            inputs.copy_(inputs.roll(1))
            shift_reference(inputs, want_tails, slots, plan, want_position)
            assert not torch.equal(tails, want_tails)
            shift_tails(inputs, tails, slots, plan, position)
            assert torch.equal(tails, want_tails), f"{case.name}, {dtype}"
            assert torch.equal(position, want_position), f"{case.name}, {dtype}"


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when a row or channel is left out, a slot is another's, or a position does not go up."""
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    check("cuda", cases.SMALL + cases.RELEASED)
