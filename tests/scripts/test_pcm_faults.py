"""Faults lie where they say they do."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.pcm_faults import CROSSFADE_S, click, gap, replay, splice
from tests.score.pcm.sounds import HOP, RATE_HZ, speech


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_replay_repeats_what_precedes_it() -> None:
    """Red when the place is that of the first hearing, or the length is off by a frame."""
    made = replay(10)(speech(), RATE_HZ, HOP, rng())
    assert made is not None
    assert len(made.samples) == len(speech()) + 10 * HOP
    np.testing.assert_array_equal(made.samples[made.at :][: 10 * HOP], made.samples[made.at - 10 * HOP : made.at])
    np.testing.assert_array_equal(made.samples[: made.at], speech()[: made.at])


def test_a_gap_is_zeros_inside_speech() -> None:
    """Red when sound beside the gap is touched."""
    made = gap(speech(), RATE_HZ, HOP, rng())
    assert made is not None
    assert not made.samples[made.at : made.at + HOP].any()
    assert np.flatnonzero(made.samples != speech()).min() >= made.at
    assert np.flatnonzero(made.samples != speech()).max() < made.at + HOP


def test_a_click_begins_at_a_frame_edge_and_dies_away() -> None:
    """Red when it lies between edges, or changes the sound before it."""
    made = click(0.5, 1.5)(speech(), RATE_HZ, HOP, rng())
    assert made is not None
    assert made.at % HOP == 0
    added = np.abs(made.samples - speech())
    assert added.argmax() == made.at
    assert not added[: made.at].any()


@pytest.mark.parametrize("crossfade_s", [0.0, CROSSFADE_S])
def test_a_splice_leaves_out_whole_frames(crossfade_s: float) -> None:
    """Red when a crossfade changes the length, or the sound outside it."""
    made = splice(10, crossfade_s)(speech(), RATE_HZ, HOP, rng())
    assert made is not None
    fade = round(crossfade_s * RATE_HZ)
    np.testing.assert_array_equal(made.samples[: made.at], speech()[: made.at])
    np.testing.assert_array_equal(made.samples[made.at + fade :], speech()[made.at + 10 * HOP + fade :])


def test_a_clip_too_short_offers_no_place() -> None:
    """Red when a fault is forced into it."""
    for fault in (replay(25), splice(25), click(0.5, 1.0), gap):
        assert fault(speech()[: 2 * HOP], RATE_HZ, HOP, rng()) is None
