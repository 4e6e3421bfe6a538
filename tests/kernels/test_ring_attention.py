"""The ring's attention kernel against the plain formula in float64, outputs and stored rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.ring_attention import cases
from ttsbench.kernels.ring_attention.reference import ring_attention as reference

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2}
"""Outputs are means of values of size 1. Float32 angles of position 1000 are exact to 6e-5 of a radian, the same on
both sides; bfloat16 rounds query, key and output once each, 2^-9 of values up to 4."""


def check(device: str, chosen=cases.SMALL) -> None:
    for case in chosen:
        for dtype in TOLERANCE:
            compare(case, device, dtype)


def compare(case: cases.Case, device: str, dtype: torch.dtype) -> None:
    from ttsbench.kernels.ring_attention.triton import ring_attention

    given, same = cases.inputs(case, device, dtype), cases.inputs(case, device, dtype)
    wide = replace(same, qkv=same.qkv.double(), keys=same.keys.double(), values=same.values.double())
    got, want = given.run(ring_attention), wide.run(reference)
    for what, a, b in (("out", got, want), ("keys", given.keys, wide.keys), ("values", given.values, wide.values)):
        error = (a.double() - b).abs().max()
        assert error < TOLERANCE[dtype], f"{case.name}, {dtype}, {what}: {error:.1e}"


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when the window is one off, a row is read that no frame has written, a head reads another's keys, the new
    key is not stored or lands in another row, or the ring's end is not wrapped."""
    run_interpreted(check)


def test_padding_disturbs_only_its_own_slot() -> None:
    run_interpreted(check_padding)


def check_padding(device: str) -> None:
    """Four rows in one slot leave every other slot as it was, and another row's output too."""
    from ttsbench.kernels.ring_attention.triton import ring_attention

    given = cases.inputs(cases.SMALL[1], device, torch.float32)
    same = cases.inputs(cases.SMALL[1], device, torch.float32)
    alone = same.run(ring_attention)
    given.slots[1:] = given.slots[1].clone()
    before = given.keys.clone()
    got = given.run(ring_attention)
    assert torch.equal(got[0], alone[0])
    touched = {int(given.slots[0]), int(given.slots[1])}
    for slot in set(range(len(before))) - touched:
        assert torch.equal(given.keys[slot], before[slot])


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    check("cuda", cases.SMALL + cases.RELEASED)
    check_padding("cuda")
