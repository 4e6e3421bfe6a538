"""Ways to bring audio to a recogniser's rate. Which one is part of a protocol: a recogniser hears the difference.

The FFT resampler is the one of the official Seed-TTS script (`scipy.signal.resample` on the whole clip): the spectrum
cut at the new Nyquist frequency. It takes the clip as one period of an endless sound, so its ends ring into each other.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from ttsbench.score.audio import ASR_RATE_HZ, Audio, for_asr


class Resampler(StrEnum):
    """A resampler, by the words that stand in a protocol."""

    SOXR = "soxr HQ"
    FFT = "FFT of the whole clip, length truncated"

    def to_asr_rate(self, audio: Audio) -> np.ndarray:
        """Samples at 16 kHz, float32, shape [samples]. Audio at that rate stays as it is."""
        if self is Resampler.SOXR or audio.sample_rate_hz == ASR_RATE_HZ:
            return for_asr(audio)
        return resample_fft(audio.samples, int(len(audio.samples) * ASR_RATE_HZ / audio.sample_rate_hz))


def resample_fft(samples: np.ndarray, length: int) -> np.ndarray:
    """`samples` [n] as `length` samples of the same duration, float32; computed in double precision."""
    if length == 0:
        return np.zeros(0, np.float32)
    spectrum = np.fft.rfft(samples.astype(np.float64))
    kept = min(len(samples), length)
    cut = np.zeros(length // 2 + 1, complex)
    cut[: kept // 2 + 1] = spectrum[: kept // 2 + 1]
    if kept % 2 == 0 and length != len(samples):
        # The bin at the lower Nyquist frequency stands for two: going down they fold together, going up they part.
        cut[kept // 2] *= 2 if length < len(samples) else 0.5
    return (np.fft.irfft(cut, length) * (length / len(samples))).astype(np.float32)
