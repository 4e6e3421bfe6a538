"""Silence, room tone, and lengths that do not fit their texts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.score.pcm.sounds import HOP_S, RATE_HZ, VOICES, found, speech
from ttsbench.records.pcm import FaultKind
from ttsbench.score.pcm.audit import hear
from ttsbench.score.pcm.pace import Length, Pace, find_pace_faults


@pytest.mark.parametrize("voice", VOICES)
def test_speech_pauses_are_no_silence(voice: str) -> None:
    """Red when the bar is a share of the clip, or far below a second."""
    assert not found(speech(voice), FaultKind.SILENCE)
    assert not found(speech(voice), FaultKind.ROOM_TONE)


@pytest.mark.parametrize("at", [0, 50_000, None])
def test_long_silence_is_found_at_either_end_and_within(at: int | None) -> None:
    """Red when padding that was set aside is forgotten, or joined to the wrong end."""
    at = len(speech()) if at is None else at
    paused = np.concatenate([speech()[:at], np.zeros(36_000), speech()[at:]])
    (one,) = found(paused, FaultKind.SILENCE)
    # Speech is itself silent for some tenths of a second at its ends.
    assert one.start_s == pytest.approx(at / RATE_HZ, abs=0.4)
    assert one.length_s == pytest.approx(1.5, abs=0.5)


def test_a_silent_file_is_one_silence() -> None:
    """Red when silence divides by its level, or has other faults too."""
    (one,) = hear(np.zeros(48_000), RATE_HZ, HOP_S).found
    assert (one.kind, one.start_s, one.length_s) == (FaultKind.SILENCE, 0.0, 2.0)


def test_room_tone_after_speech_is_found() -> None:
    """What a runaway writes: 40 dB under speech. Red when only digital silence is an end without speech."""
    tone = 0.01 * speech().std() * np.random.default_rng(0).standard_normal(5 * RATE_HZ)
    (one,) = found(np.concatenate([speech(), tone]), FaultKind.ROOM_TONE)
    assert one.start_s == pytest.approx(len(speech()) / RATE_HZ, abs=0.4)


def test_pace_is_not_bent_by_a_quarter_of_broken_rows() -> None:
    """Red with least squares instead of medians."""
    rng = np.random.default_rng(0)
    characters = rng.integers(30, 90, 64)
    seconds = 0.8 + 0.05 * characters + rng.normal(0, 0.1, 64)
    broken = seconds.copy()
    broken[::4] -= 2.0
    pace = Pace.of(characters.tolist(), broken.tolist())
    assert pace is not None
    for count in (30, 60, 90):
        assert pace.expected_s(count) == pytest.approx(0.8 + 0.05 * count, rel=0.1)
    assert pace.spread < 0.2


def test_too_few_rows_or_texts_of_one_length_have_no_pace() -> None:
    """Red when a line is drawn through nothing."""
    assert Pace.of([10, 20, 30], [1.0, 2.0, 3.0]) is None
    assert Pace.of([10] * 20, [1.0] * 20) is None
    assert Pace.of(list(range(10, 30)), [3.0 - 0.1 * k for k in range(20)]) is None


@pytest.mark.parametrize(
    ("seconds", "at_limit", "kinds"),
    [
        (3.0, False, []),
        (10.0, False, [FaultKind.TOO_LONG]),
        (1.6, False, [FaultKind.TOO_SHORT]),
        (3.0, True, [FaultKind.LENGTH_LIMIT]),
        (164.0, True, [FaultKind.LENGTH_LIMIT, FaultKind.TOO_LONG]),
    ],
)
def test_lengths_against_the_text(seconds: float, at_limit: bool, kinds: list[FaultKind]) -> None:
    """Red when a bar is missing, or a cut row is taken for a good one."""
    assert [one.kind for one in find_pace_faults(Length(seconds, 0.0, seconds), 3.0, 0.05, at_limit)] == kinds


def test_a_length_is_that_of_what_sounds() -> None:
    """One second from 1.5 s on, with no numbers around it. Red when padding fills a short row up, or makes a row long;
    when NaN or infinity sounds; or when the limit is not told of the whole file.
    """
    samples = np.zeros(8 * RATE_HZ, np.float32)
    samples[36_000:60_000] = 0.1
    samples[[5, -5]] = np.inf, np.nan
    length = Length.of(samples, RATE_HZ)
    assert length == Length(8.0, 1.5, 1.0)
    found = [(one.kind, one.start_s, one.length_s, one.strength) for one in find_pace_faults(length, 3.0, 0.05, True)]
    assert found == [(FaultKind.LENGTH_LIMIT, 0.0, 8.0, 8.0), (FaultKind.TOO_SHORT, 1.5, 1.0, 3.0)]
    assert not find_pace_faults(length, 1.0, 0.05, at_limit=False)
    assert not find_pace_faults(Length(8.0, 0.0, 0.0), 1.0, 0.05, at_limit=False)


def test_a_run_of_uneven_pace_asks_more_of_a_short_row() -> None:
    """Red when the spread is ignored."""
    assert not find_pace_faults(Length(1.6, 0.0, 1.6), 3.0, 0.3, at_limit=False)
    assert not find_pace_faults(Length(1.6, 0.0, 1.6), None, 0.0, at_limit=False)
