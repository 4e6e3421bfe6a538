"""Clicks and splices at frame edges; what a voice does by nature is none."""

from __future__ import annotations

import numpy as np
import pytest

from tests.score.pcm.sounds import HOP, HOP_S, RATE_HZ, VOICES, amplitude, bars, found, heard_in, loud_edge, speech
from ttsbench.records.pcm import FaultKind
from ttsbench.score.pcm.audit import hear
from ttsbench.score.pcm.joints import CLICK_BAR, SPLICE_AT_EDGE, SPLICE_BAR, Bars, Evidence, find_joints
from ttsbench.score.pcm.seam import Traits, frame_edges
from ttsbench.score.pcm.signal import Clip

JOINTS = (FaultKind.CLICK, FaultKind.SPLICE)


def clicked(samples: np.ndarray, at: int, height: float) -> np.ndarray:
    """A step of `height` levels that dies away over 0.5 ms."""
    broken = samples.copy()
    broken[at : at + 480] += height * amplitude(samples) * np.exp(-np.arange(480) / 12)
    return broken


@pytest.mark.parametrize("voice", VOICES)
@pytest.mark.parametrize(("away", "height"), [(0, 3.0), (777, 10.0)])
def test_a_click_is_found_at_its_sample(voice: str, away: int, height: float) -> None:
    """At a frame edge and, larger, away from all. Red when only one of the two is looked at."""
    at = loud_edge(speech(voice)) + away
    clean = {one.start_s for one in heard_in(voice).findings(bars()) if one.kind in JOINTS}
    clicks = [one.start_s for one in found(clicked(speech(voice), at, height), FaultKind.CLICK)]
    assert [s for s in clicks if s not in clean] == pytest.approx([at / RATE_HZ], abs=0.001)


def test_a_splice_of_two_voices_is_found_at_the_joint() -> None:
    """Red when joints are sought without the sharpness of the point."""
    first, second = speech("am_michael"), speech("bf_emma")
    at, on = loud_edge(first), loud_edge(second)
    joined = np.concatenate([first[:at], second[on : on + at]])
    heard = hear(joined, RATE_HZ, HOP_S)
    assert heard.joints is not None
    best = max(find_joints(heard.joints, Bars(SPLICE_BAR, CLICK_BAR), False), key=lambda one: one.strength)
    assert best.start_s == pytest.approx(at / RATE_HZ, abs=0.001)


def test_bars_rise_with_what_speech_does_inside_frames() -> None:
    """Red when the bars are fixed: these voices' own pulses would then be splices by the dozen."""
    assert bars().splice > SPLICE_BAR
    fixed = Bars(SPLICE_BAR, CLICK_BAR)
    alarms = {True: 0, False: 0}
    for voice in VOICES:
        joints = heard_in(voice).joints
        assert joints is not None
        for adapted in alarms:
            alarms[adapted] += len(find_joints(joints, bars() if adapted else fixed, False))
    assert alarms[False] > 5 * max(1, alarms[True])


def test_bars_do_not_rise_with_the_clicks_they_must_find() -> None:
    """A click at every fifth edge of every clip. Red when bars are read from the edges' own tail."""
    broken = []
    for voice in VOICES:
        samples = speech(voice)
        for at in range(5 * HOP, len(samples) - HOP, 5 * HOP):
            samples = clicked(samples, at, 3.0)
        broken.append(Evidence.of(Traits.of(Clip.of(samples, RATE_HZ)), HOP_S))
    # 1.5 log odds: a click also reaches the points beside it, and clicks in pauses make the clip's level no other.
    assert Bars.of(broken).click < bars().click + 1.5


def test_a_row_too_short_for_its_text_shows_its_best_joint() -> None:
    """Red when the allowance is not given, or given to every row."""
    joints = heard_in("bm_fable").joints
    assert joints is not None
    scores = SPLICE_AT_EDGE.of(joints.edge_features)[joints.edge_spoken]
    high = Bars(float(scores.max()) + 1.0, 99.0)
    assert not find_joints(joints, high, too_short=False)
    (one,) = find_joints(joints, high, too_short=True)
    assert one.strength == pytest.approx(-1.0)
    assert not find_joints(joints, Bars(float(scores.max()) + 5.0, 99.0), too_short=True)


def test_frames_are_counted_from_the_file_unless_it_is_padded() -> None:
    """Red when padding moves the edges, or a decoder that begins with some zeros has its own moved."""
    assert frame_edges(Clip(np.ones(8000), 0.0), 0.08).tolist() == [1600, 3200, 4800, 6400]
    assert frame_edges(Clip(np.ones(8000), 1.51), 0.08).tolist() == [1600, 3200, 4800, 6400]
    assert frame_edges(Clip(np.ones(8000), 0.03), 0.08).tolist() == [1000, 2600, 4200, 5800, 7400]
