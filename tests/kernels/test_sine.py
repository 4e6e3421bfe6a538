"""Sine and cosine of the special function unit, and the turns taken off before them."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.interpreted import run_interpreted

pytest.importorskip("triton")

import triton
import triton.language as tl

from ttsbench.kernels.sine import approximates, cosine, sine, within_a_turn

TOLERANCE = 2e-6
"""Of values up to 1: 5e-7 of the unit, 1e-6 of the turns."""


@triton.jit  # type: ignore[untyped-decorator]
def waves_kernel(x_ptr, out_ptr, n, TURNS: tl.constexpr, APPROXIMATE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    if TURNS:
        x = within_a_turn(x)
    tl.store(out_ptr + at, sine(x, APPROXIMATE), mask=at < n)
    tl.store(out_ptr + n + at, cosine(x, APPROXIMATE), mask=at < n)


def check(device: str) -> None:
    for largest, turns in ((3.1, False), (20_000.0, True)):
        x = torch.linspace(-largest, largest, 5_001, device=device)
        out = x.new_empty(2, len(x))
        waves_kernel[(triton.cdiv(len(x), 1024),)](x, out, len(x), TURNS=turns, APPROXIMATE=approximates(x), BLOCK=1024)
        want = torch.stack((x.double().sin(), x.double().cos()))
        error = (out.double() - want).abs().max().item()
        assert error < TOLERANCE, f"up to {largest}: {error:.1e}"


def test_turns_taken_off_leave_the_angle_in_the_interpreter() -> None:
    """Red when the three parts do not add up to a turn, or the first two have too many bits to be exact."""
    run_interpreted(check)


@pytest.mark.gpu
def test_the_unit_gives_sine_and_cosine_on_a_gpu() -> None:
    """Red when an angle beyond pi reaches the unit as it is."""
    check("cuda")
