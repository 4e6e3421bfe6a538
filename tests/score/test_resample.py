"""The FFT resampler gives what scipy gives: exact for what it is made for, with the Nyquist bin halved or doubled."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ttsbench.score.audio import Audio, for_asr
from ttsbench.score.resample import Resampler, resample_fft


def cosines(samples: int, cycles: dict[int, float]) -> np.ndarray:
    """A sum of cosines by whole cycles per clip: what an FFT resampler carries over exactly."""
    turn = 2 * math.pi * np.arange(samples) / samples
    return np.sum([height * np.cos(count * turn + count) for count, height in cycles.items()], axis=0)


@pytest.mark.parametrize(("before", "after"), [(2400, 1600), (2401, 1601), (4410, 1600), (1600, 2400), (800, 1600)])
def test_what_fits_below_both_nyquist_frequencies_is_carried_over_exactly(before: int, after: int) -> None:
    """Red when the gain, the phase or the length is off. 1e-6: single precision at a height of 1."""
    fits = {0: 0.3, 1: 1.0, 7: 0.5, min(before, after) // 2 - 1: 0.2}
    got = resample_fft(cosines(before, fits), after)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, cosines(after, fits), atol=1e-6)


def test_what_does_not_fit_is_cut_off() -> None:
    """Red when it folds back as an alias, at all."""
    np.testing.assert_allclose(
        resample_fft(cosines(2400, {7: 0.5, 900: 1.0}), 1600), cosines(1600, {7: 0.5}), atol=1e-6
    )


def test_the_nyquist_bin_folds_going_down_and_parts_going_up() -> None:
    """Red when the bin that stands for two frequencies is taken for one. Values of scipy.signal.resample 1.17."""
    np.testing.assert_allclose(
        resample_fft(np.array([1.0, 0, 0, 0, 0, 0]), 4), [5 / 6, -1 / 6, 1 / 6, -1 / 6], atol=1e-7
    )
    np.testing.assert_allclose(resample_fft(np.array([1.0, 0]), 4), [1, 0.5, 0, 0.5], atol=1e-7)


def test_the_length_is_truncated_and_audio_at_the_rate_is_left_alone() -> None:
    """Red when the length is rounded, or 16 kHz audio goes through the resampler."""
    assert len(Resampler.FFT.to_asr_rate(Audio(np.zeros(24_001, np.float32), 24_000))) == 16_000
    assert len(Resampler.FFT.to_asr_rate(Audio(np.zeros(1, np.float32), 24_000))) == 0
    samples = np.array([0.5, -0.25, 1.0], np.float32)
    assert Resampler.FFT.to_asr_rate(Audio(samples, 16_000)) is samples


def test_each_resampler_is_the_one_it_is_called() -> None:
    """Red when the two get mixed up: a protocol pins the name."""
    clip = Audio(np.random.default_rng(0).standard_normal(2400).astype(np.float32), 24_000)
    assert (Resampler.SOXR.to_asr_rate(clip) == for_asr(clip)).all()
    assert (Resampler.FFT.to_asr_rate(clip) == resample_fft(clip.samples, 1600)).all()
