"""A clip as the detectors see it: one rate, one yardstick for level, no padding.

Findings must not depend on how a clip was stored. So it is brought to one rate; what lies before the first and after
the last sample that is not digital silence is set aside; and every threshold is relative to the clip's own level, the
mean power of its 20 ms frames weighted by that power, which neither pauses nor padding move.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import soxr

ANALYSIS_RATE_HZ = 20_000
"""Holds what tells a joint from speech, and is inside the pass band of every rate from 22.05 kHz up."""
FRAME_S = 0.02
DIGITAL_SILENCE = 2.0**-16
"""Half a step of 16 bits: what is written as zero."""


@dataclass(frozen=True)
class Clip:
    """Mono audio at ANALYSIS_RATE_HZ, float64 [S], from its first to its last sample that is not digital silence."""

    samples: np.ndarray
    offset_s: float
    """Where `samples` begins in the file."""

    @classmethod
    def of(cls, samples: np.ndarray, sample_rate_hz: int) -> Clip:
        """From a file's samples [S], any rate, finite, full scale 1.0."""
        first, end = sounding(samples)
        inner = samples[first:end].astype(np.float64)
        if sample_rate_hz != ANALYSIS_RATE_HZ and len(inner):
            inner = soxr.resample(inner, sample_rate_hz, ANALYSIS_RATE_HZ, quality="HQ")
        return cls(inner, first / sample_rate_hz)

    @cached_property
    def frame_power(self) -> np.ndarray:
        """Power of each whole 20 ms frame, [F]."""
        width = count(FRAME_S)
        whole = self.samples[: len(self.samples) // width * width]
        return np.square(whole.reshape(-1, width)).mean(axis=1)

    @cached_property
    def level(self) -> float:
        """Power of the clip where it sounds; 0 for a clip without a sounding frame."""
        total = self.frame_power.sum()
        return float(np.square(self.frame_power).sum() / total) if total > 0 else 0.0

    def at_s(self, index: int) -> float:
        """Time of a sample in the file, seconds."""
        return self.offset_s + index / ANALYSIS_RATE_HZ


def sounding(samples: np.ndarray) -> tuple[int, int]:
    """First sample that is not digital silence and one past the last; (0, 0) where there is none."""
    loud = np.flatnonzero(np.abs(samples) > DIGITAL_SILENCE)
    return (int(loud[0]), int(loud[-1]) + 1) if len(loud) else (0, 0)


def count(seconds: float) -> int:
    """Samples in a stretch of time, at the analysis rate."""
    return round(seconds * ANALYSIS_RATE_HZ)


def ratio(decibels: float) -> float:
    """A ratio of powers given in dB."""
    return float(10 ** (decibels / 10))


def decibels(power: np.ndarray, floor: float) -> np.ndarray:
    """Power in dB, nothing below `floor` (a power above zero)."""
    return np.asarray(10 * np.log10(np.maximum(power, floor)))


def runs(flags: np.ndarray) -> np.ndarray:
    """Start and end of every stretch of true values in `flags` [S]: int64 [runs, 2], half open."""
    edges = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    return np.stack([np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)], axis=1)


def windows(samples: np.ndarray, points: np.ndarray, begin: int, end: int) -> np.ndarray:
    """Samples from `begin` to `end` around each point, [points, end - begin]; beyond the ends it is silent."""
    reach = max(abs(begin), abs(end))
    padded = np.pad(samples, reach)
    return np.asarray(padded[points[:, None] + reach + np.arange(begin, end)])
