"""PCM as files: one formula from float to 16 bits, one way to write a WAV.

The formula is libsndfile's with clipping on, which most tools of this field use: scale to 32-bit full range, round half
to even, saturate, keep the high 16 bits. A value that overruns full scale is clamped and counted, never wrapped.
"""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np

from ttsbench.records.writer import write_atomic

FULL_SCALE_32 = 2.0**31


def to_pcm16(samples: np.ndarray) -> np.ndarray:
    """int16 [S] of `samples` [S], float with full scale 1.0, or int16 already. NaN and infinity are a ValueError."""
    if samples.dtype == np.int16:
        return samples
    if not np.isfinite(samples).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(samples))} of {samples.size} samples are not finite")
    scaled = np.rint(samples.astype(np.float64) * FULL_SCALE_32)
    clamped = np.clip(scaled, -FULL_SCALE_32, FULL_SCALE_32 - 1)
    return (clamped.astype(np.int64) >> 16).astype(np.int16)


def count_clipped(samples: np.ndarray) -> int:
    """Samples beyond full scale, which `to_pcm16` clamps; int16 has none."""
    return 0 if samples.dtype == np.int16 else int(np.count_nonzero(np.abs(samples) > 1.0))


def wav_bytes(pcm: np.ndarray, sample_rate_hz: int) -> bytes:
    """A mono 16-bit WAV file of int16 `pcm` [S], its header's sizes exact."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate_hz)
        file.writeframes(pcm.astype("<i2").tobytes())
    return buffer.getvalue()


def write_wav(path: Path, pcm: np.ndarray, sample_rate_hz: int) -> bytes:
    """Write a WAV so that `path` never holds half of one; returns the file's bytes."""
    data = wav_bytes(pcm, sample_rate_hz)
    write_atomic(path, data)
    return data
