"""Drawn voices: who they depend on, how far they lie from the teacher's own, and who is held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from scripts.train_tiny.config import SPEAKERS
from scripts.train_tiny.voices import (
    ACOUSTIC,
    HELD_EVERY,
    INSIDE,
    NAMED,
    NAMED_ROWS,
    OUTSIDE,
    OWN,
    TRAIN,
    UNSEEN,
    Voices,
    is_held,
)

LENGTHS = 5


@pytest.fixture
def teacher(tmp_path: Path) -> Path:
    """28 made-up style tables, whose rows differ little by length."""
    (tmp_path / "part1").mkdir()
    random = np.random.default_rng(0)
    styles = random.normal(size=(28, 1, 256)) + 0.1 * random.normal(size=(28, LENGTHS, 256))
    np.savez(tmp_path / "part1" / "voices.npz", names=[*TRAIN, *UNSEEN], styles=styles.astype(np.float16))
    return tmp_path


def test_the_first_rows_are_the_published_voices(teacher: Path) -> None:
    """Red when a step or another pitch is given to them too: `tiny` speaks with four of these rows."""
    voices = Voices(teacher, "cpu", OWN + 2)
    stored = torch.from_numpy(np.load(teacher / "part1" / "voices.npz")["styles"]).float()
    torch.testing.assert_close(voices.style(torch.arange(OWN), 3), stored[:OWN, 2])
    assert voices.pitch(torch.arange(OWN)).tolist() == [1.0] * OWN


def test_rows_of_named_voices_are_where_the_folder_has_them(teacher: Path) -> None:
    """Red when `TRAIN` changes its order: shards and talkers know a voice by its row alone."""
    names = np.load(teacher / "part1" / "voices.npz")["names"]
    assert NAMED_ROWS == (0, 1, 12, 11), "heart, bella, michael and fenrir in all shards so far"
    assert [names[row] for row in NAMED_ROWS] == list(NAMED.values())
    assert list(NAMED) == list(SPEAKERS), "they are paired by their order"
    assert len({*TRAIN, *UNSEEN}) == len(TRAIN) + len(UNSEEN) == 28
    assert OWN == 20


def test_a_folder_with_voices_in_another_order_is_refused(teacher: Path) -> None:
    """Red without the check: another voice would speak under each name."""
    stored = dict(np.load(teacher / "part1" / "voices.npz"))
    stored["names"][[0, 1]] = stored["names"][[1, 0]]
    np.savez(teacher / "part1" / "voices.npz", **stored)
    with pytest.raises(ValueError, match="expected first"):
        Voices(teacher, "cpu")


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

    Over 2,000 draws: what is left outside varies by 0.02 from voice to voice, what lies inside by 0.2 (19 dimensions),
    so their roots of mean squares are known to 0.0005 and 0.004. Four of these are allowed.
    """
    voices = Voices(teacher, "cpu", OWN + 2000)
    styles = voices.mean_style(torch.arange(len(voices)))
    for half in (slice(None, ACOUSTIC), slice(ACOUSTIC, None)):
        own = styles[:OWN, half] - styles[:OWN, half].mean(0)
        drawn = styles[OWN:, half] - styles[:OWN, half].mean(0)
        span = torch.linalg.svd(own, full_matrices=False)[2][:-1]
        inside = drawn @ span.T @ span
        far = own.norm(dim=1).mean()
        # a step goes along each axis as far as the 20 do: a little more than 19 / 128 of its power lies in their span
        power = own.var(0)
        share = float((power * span.square().sum(0)).sum() / power.sum())
        left = (drawn - inside).square().sum(1).mean().sqrt() / far
        assert float(left) == pytest.approx(OUTSIDE * (1 - share) ** 0.5, abs=0.002)
        # 20 independent weights of variance 1 / 20 add up to the mean square of the 20 deviations
        spread = float(own.square().sum(1).mean() / far**2)
        within = inside.square().sum(1).mean().sqrt() / far
        assert float(within) == pytest.approx((INSIDE**2 * spread + OUTSIDE**2 * share) ** 0.5, abs=0.016)


def test_every_so_manieth_drawn_voice_is_held_out() -> None:
    """Red when a published voice is: `tiny-base` must have heard those."""
    held = np.flatnonzero(is_held(np.arange(OWN + 4 * HELD_EVERY)))
    assert held.tolist() == [24, 49, 74, 99]
    assert not is_held(np.arange(OWN)).any()
