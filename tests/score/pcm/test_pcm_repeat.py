"""Stretches played twice are found where they are; a hum and a voice saying a word again are none."""

from __future__ import annotations

import numpy as np
import pytest

from tests.score.pcm.sounds import HOP, HOP_S, RATE_HZ, VOICES, found, hum, speech
from ttsbench.records.pcm import FaultKind


def replayed(samples: np.ndarray, start: int, length: int, pause: int = 0) -> np.ndarray:
    again = start + length
    return np.concatenate([samples[: again + pause], samples[start:again], samples[again + pause :]])


@pytest.mark.parametrize("voice", VOICES)
@pytest.mark.parametrize(("length", "pause"), [(5 * HOP, 0), (9600, 0), (25 * HOP, 0), (7777, 12_345)])
def test_a_replay_is_found_at_its_second_hearing(voice: str, length: int, pause: int) -> None:
    """Also of 400 ms, at a lag of no whole frames, and with other sound between.

    Red when lags are only searched at multiples of the hop, or the start of the source is reported.
    """
    start = 10 * HOP + 321
    (one,) = found(replayed(speech(voice), start, length, pause), FaultKind.REPEAT)
    assert one.start_s == pytest.approx((start + length + pause) / RATE_HZ, abs=HOP_S)
    assert one.source_s == pytest.approx(start / RATE_HZ, abs=HOP_S)
    assert one.length_s == pytest.approx(length / RATE_HZ, abs=HOP_S)


def test_a_replay_with_a_difference_is_found_still() -> None:
    """Noise 20 dB under the replay stands for a decoder with another context. Red when only equal samples count."""
    start, length = 10 * HOP, 10 * HOP
    broken = replayed(speech(), start, length)
    again = broken[start + length : start + 2 * length]
    again *= 1 + 0.1 * np.random.default_rng(0).standard_normal(length)
    assert found(broken, FaultKind.REPEAT)


@pytest.mark.parametrize("voice", VOICES)
def test_speech_repeats_nothing(voice: str) -> None:
    """Red when likeness of a vowel to itself passes for a replay (AGREEMENT_DB far lower)."""
    assert not found(speech(voice), FaultKind.REPEAT)


def test_hum_and_silence_are_no_replays() -> None:
    """Red without the check that a stretch is unlike its own surroundings, or without the one for sound."""
    assert not found(hum(), FaultKind.REPEAT)
    quiet = np.concatenate([speech()[: 20 * HOP], np.zeros(15 * HOP), speech()[20 * HOP :]])
    assert not found(quiet, FaultKind.REPEAT)
