"""Drawn voices: who they depend on, how far they lie from the teacher's own, and who is held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from scripts.train_tiny.voices import ACOUSTIC, HELD_EVERY, INSIDE, OUTSIDE, OWN, Voices, is_held

LENGTHS = 5


@pytest.fixture
def teacher(tmp_path: Path) -> Path:
    """28 made-up style tables, whose rows differ little by length."""
    (tmp_path / "part1").mkdir()
    random = np.random.default_rng(0)
    styles = random.normal(size=(28, 1, 256)) + 0.1 * random.normal(size=(28, LENGTHS, 256))
    names = [f"v{number}" for number in range(28)]
    np.savez(tmp_path / "part1" / "voices.npz", names=names, styles=styles.astype(np.float16))
    return tmp_path


def test_the_first_rows_are_the_published_voices(teacher: Path) -> None:
    """Red when a step or another pitch is given to them too: `tiny` speaks with four of these rows."""
    voices = Voices(teacher, "cpu", OWN + 2)
    for row in range(OWN):
        torch.testing.assert_close(voices.style(torch.tensor([row]), 3), voices.named(f"v{row}", 3))
    assert voices.pitch(torch.arange(OWN)).tolist() == [1.0] * OWN


def test_a_row_is_the_same_voice_whoever_asks(teacher: Path) -> None:
    """Red when all rows are drawn from one stream that another count, or another order, would shift."""
    few, many = Voices(teacher, "cpu", 30), Voices(teacher, "cpu", 60)
    rows = torch.tensor([29, 3, 25])
    assert torch.equal(few.style(rows, 4), many.style(rows, 4))
    assert torch.equal(few.pitch(rows), many.pitch(rows))
    assert len(many) == 60


def test_voices_kept_for_judging_leave_no_trace(teacher: Path) -> None:
    """Red when means or deviations are taken over all 28."""
    before = Voices(teacher, "cpu", 40).mean_style(torch.arange(40))
    stored = dict(np.load(teacher / "part1" / "voices.npz"))
    stored["styles"][OWN:] = 100
    np.savez(teacher / "part1" / "voices.npz", **stored)
    assert torch.equal(Voices(teacher, "cpu", 40).mean_style(torch.arange(40)), before)


def test_drawn_voices_leave_the_span_of_the_published_ones(teacher: Path) -> None:
    """Both halves, by the part they shall: red without the step, or when one half's is not scaled.

    The parts are means over 300 draws; a hundredth covers what made-up styles leave inside the span by chance.
    """
    voices = Voices(teacher, "cpu", OWN + 300)
    styles = voices.mean_style(torch.arange(len(voices)))
    for half in (slice(None, ACOUSTIC), slice(ACOUSTIC, None)):
        own = styles[:OWN, half] - styles[:OWN, half].mean(0)
        drawn = styles[OWN:, half] - styles[:OWN, half].mean(0)
        span = torch.linalg.svd(own, full_matrices=False)[2][:-1]
        inside = drawn @ span.T @ span
        far = own.norm(dim=1).mean()
        left = (drawn - inside).norm(dim=1).mean() / far
        # a random direction of 128 lies with 19 / 128 of its power in the span
        assert float(left) == pytest.approx(OUTSIDE * (1 - 19 / 128) ** 0.5, abs=0.01)
        within = inside.square().sum(1).mean().sqrt() / far
        assert float(within) == pytest.approx((INSIDE**2 * 19 / 20 + OUTSIDE**2 * 19 / 128) ** 0.5, rel=0.1)


def test_every_so_manieth_drawn_voice_is_held_out() -> None:
    """Red when a published voice is: `tiny-base` must have heard those."""
    held = np.flatnonzero(is_held(np.arange(OWN + 4 * HELD_EVERY)))
    assert held.tolist() == [24, 49, 74, 99]
    assert not is_held(np.arange(OWN)).any()
