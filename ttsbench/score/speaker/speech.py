"""The spoken part of a clip: what is left when long pauses are out.

Every 10 ms frame counts whose power is within 30 dB of the clip's speech, and 100 ms around it. The level of the speech
is that of the frame at which half of the clip's energy is reached, loudest frames first: silence around a clip adds no
energy, so it moves nothing, and gain moves all frames alike. (A percentile of the frames, the usual choice, falls into
the silence when a clip is padded, and then all of the silence counts as speech.) A frame's mean is removed before, so
that a constant offset has no power.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import JsonValue

from ttsbench.score.audio import ASR_RATE_HZ

FRAME = ASR_RATE_HZ // 100
"""Samples of a frame: 10 ms."""
DEPTH_DB = 30.0
"""How far below the speech a frame may lie."""
AROUND = 10
"""Frames kept on both sides of one that counts."""

PINNED: Mapping[str, JsonValue] = {"frame_s": FRAME / ASR_RATE_HZ, "depth_db": DEPTH_DB, "around_frames": AROUND}


def spoken(samples: np.ndarray) -> np.ndarray:
    """The frames of 16 kHz `samples` that hold speech, one after another, float32 [S]; none of a silent clip."""
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    power = frame_power(samples)
    if not power.any():
        return frames[:0].ravel()
    falling = np.sort(power)[::-1]
    energy = np.cumsum(falling)
    level = falling[np.searchsorted(energy, energy[-1] / 2)]
    loud = np.pad(power > level * 10 ** (-DEPTH_DB / 10), AROUND)
    near = np.convolve(loud, np.ones(2 * AROUND + 1), "valid") > 0
    return frames[near].ravel()


def frame_power(samples: np.ndarray) -> np.ndarray:
    """Variance of each whole frame, float64 [S / FRAME]."""
    return samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME).var(axis=1, dtype=np.float64)
