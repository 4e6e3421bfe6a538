"""The clip the detectors see, and the whitener."""

from __future__ import annotations

import numpy as np
import pytest

from tests.score.pcm.sounds import RATE_HZ, speech
from ttsbench.score.pcm.signal import ANALYSIS_RATE_HZ, Clip, runs, windows
from ttsbench.score.pcm.whiten import FRAME, ORDER, STEP, WHITE_NOISE, prediction_residual


def test_level_does_not_move_with_padding_and_follows_gain() -> None:
    """Red when the level is a mean or a percentile over all frames, or padding is not set aside."""
    clip, padded = Clip.of(speech(), RATE_HZ), Clip.of(np.pad(speech(), 36_000), RATE_HZ)
    assert padded.level == pytest.approx(clip.level, rel=1e-9)
    assert padded.offset_s == pytest.approx(clip.offset_s + 1.5)
    assert Clip.of(speech() / 4, RATE_HZ).level == pytest.approx(clip.level / 16, rel=1e-2)  # the ends lose a sample


def test_level_counts_sound_and_not_pauses() -> None:
    """Red when quiet frames weigh as much as loud ones: silence between two tones would halve the level."""
    tone = np.full(20_000, 0.1)
    paused = np.concatenate([tone, np.full(20_000, 1e-4), tone])
    assert Clip(paused, 0.0).level == pytest.approx(0.01, rel=1e-4)


def test_a_silent_file_is_an_empty_clip() -> None:
    """Red when silence raises, or gets a level above zero."""
    clip = Clip.of(np.zeros(1000), RATE_HZ)
    assert (len(clip.samples), clip.level) == (0, 0.0)


def test_runs_and_windows() -> None:
    """Red when a run at either end is lost, or a window beyond the ends is not silent."""
    assert runs(np.array([True, False, True, True])).tolist() == [[0, 1], [2, 4]]
    assert windows(np.arange(1.0, 4.0), np.array([0, 2]), -1, 2).tolist() == [[0, 1, 2], [2, 3, 0]]


def test_residual_is_that_of_the_normal_equations() -> None:
    """One frame's predictor against a dense solver. Red when a tap, the window or the recursion is off by one."""
    samples = np.random.default_rng(0).standard_normal(4 * STEP).cumsum() * 0.01
    residual = prediction_residual(samples)
    lead = (FRAME - STEP) // 2
    span = samples[2 * STEP - lead : 2 * STEP - lead + FRAME] * np.hanning(FRAME)
    lags = np.correlate(span, span, "full")[FRAME - 1 : FRAME + ORDER]
    lags[0] *= 1 + WHITE_NOISE
    matrix = lags[np.abs(np.subtract.outer(np.arange(ORDER), np.arange(ORDER)))]
    taps = np.linalg.solve(matrix, lags[1:])
    for n in (2 * STEP, 3 * STEP - 1):
        predicted = taps @ samples[n - ORDER : n][::-1]
        assert residual[n] == pytest.approx(samples[n] - predicted, abs=1e-7)


def test_analysis_rate_holds_what_any_rate_holds() -> None:
    """Red when the analysis rate exceeds that of the audio it must be fair to."""
    assert ANALYSIS_RATE_HZ <= 22_050
