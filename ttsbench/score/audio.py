"""Audio as a recogniser wants it, and whether there is anything in it to recognise.

A recogniser asked to transcribe silence makes words up. So audio passes an energy gate first, window by window: where
no 20 ms frame rises above -60 dBFS, no words are asked for. That is far above the rounding noise of 16-bit samples
(-101 dBFS) and far below speech. A frame's mean is removed before, so that a constant offset is silence too.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import soundfile
import soxr

ASR_RATE_HZ = 16_000
SILENCE_DBFS = -60.0
FRAME_S = 0.02
WINDOW_S = 30
"""Whisper sees 30 s at a time; windows are gated one by one."""


class AudioFault(Exception):
    """Bytes that hold no usable audio."""


@dataclass(frozen=True)
class Audio:
    """Mono audio, float32, shape [samples]."""

    samples: np.ndarray
    sample_rate_hz: int

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.sample_rate_hz


def decode_wav(data: bytes) -> Audio:
    """Decode a file's bytes; channels are averaged. Raises AudioFault for what cannot be decoded or is not finite."""
    return finite(decode_samples(data))


def decode_samples(data: bytes) -> Audio:
    """The same, whatever numbers the file holds. Raises AudioFault for what cannot be decoded."""
    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        # The error's own message names the object in memory by its address, which differs from run to run.
        raise AudioFault(f"cannot be decoded: {error.error_string}") from None
    return Audio(samples.mean(axis=1), rate)


def finite(audio: Audio) -> Audio:
    """The audio itself. Raises AudioFault where a sample is not finite."""
    if not np.isfinite(audio.samples).all():
        raise AudioFault("holds samples that are not finite")
    return audio


def for_asr(audio: Audio) -> np.ndarray:
    """Samples at 16 kHz, float32, shape [samples]: soxr at its HQ setting, from the rate in the header."""
    if audio.sample_rate_hz == ASR_RATE_HZ:
        return audio.samples
    return soxr.resample(audio.samples, audio.sample_rate_hz, ASR_RATE_HZ, quality="HQ")


def audible_windows(samples: np.ndarray) -> list[tuple[int, int]]:
    """Start and end, in seconds, of each 30 s window of 16 kHz `samples` that is not silent. The last may overshoot."""
    step = WINDOW_S * ASR_RATE_HZ
    windows = range(-(-len(samples) // step))
    return [(w * WINDOW_S, (w + 1) * WINDOW_S) for w in windows if _is_audible(samples[w * step : (w + 1) * step])]


def audible_stretches(samples: np.ndarray) -> list[tuple[int, int]]:
    """Start and end, in samples, of what is not silent: neighbouring audible windows are one stretch, never cut."""
    stretches: list[tuple[int, int]] = []
    for start_s, end_s in audible_windows(samples):
        start, end = start_s * ASR_RATE_HZ, min(end_s * ASR_RATE_HZ, len(samples))
        if stretches and stretches[-1][1] == start:
            start = stretches.pop()[0]
        stretches.append((start, end))
    return stretches


def _is_audible(samples: np.ndarray) -> bool:
    width = round(FRAME_S * ASR_RATE_HZ)
    padded = np.pad(samples, (0, -len(samples) % width), mode="edge")
    power = padded.reshape(-1, width).var(axis=1, dtype=np.float64)
    return bool(10 * np.log10(power.max() + 1e-20) > SILENCE_DBFS)
