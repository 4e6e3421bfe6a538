"""Silence at the head of a row's audio: an engine must not win first audio with a packet of nothing.

The gate is the recogniser's (-60 dBFS, the mean removed), in shorter frames: first audio is a matter of milliseconds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ttsbench.records import RequestRecord
from ttsbench.score.audio import SILENCE_DBFS
from ttsbench.score.row_audio import Charge, audio_of
from ttsbench.score.timing.figures import Figure

FRAME_S = 0.005


def leading_silence(run_dir: Path, record: RequestRecord) -> Figure:
    """Silent samples at the head of a row's WAV, or why that cannot be told."""
    audio = audio_of(run_dir, record)
    if isinstance(audio, Charge):
        return f"no usable WAV: {audio.cause}"
    silent = silent_head(audio.samples, audio.sample_rate_hz)
    return "silence throughout" if silent is None else silent


def silent_head(samples: np.ndarray, sample_rate_hz: int) -> int | None:
    """Samples before the first frame of 5 ms that rises above the gate, `samples` of shape [n]; None when none does."""
    width = round(FRAME_S * sample_rate_hz)
    padded = np.pad(samples, (0, -len(samples) % width), mode="edge")
    power = padded.reshape(-1, width).var(axis=1, dtype=np.float64)
    audible = np.flatnonzero(10 * np.log10(power + 1e-20) > SILENCE_DBFS)
    return int(audible[0]) * width if len(audible) else None
