"""Points where the waveform was joined: clicks, and splices where a stretch was cut out.

A joint is broadband and lasts a sample; a burst of speech is broadband and lasts. So at a point the curvature and the
prediction residual are each set against their mean around it and their largest value near it, and the residual against
the clip's level: five figures in dB, from which `joints` tells how much likelier a splice, or a click, is than speech.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ttsbench.score.pcm.signal import ANALYSIS_RATE_HZ, Clip, count, decibels, ratio, windows
from ttsbench.score.pcm.whiten import curvature, prediction_residual

FEATURES = (
    "curvature_over_mean_db",
    "curvature_over_near_db",
    "residual_over_mean_db",
    "residual_over_near_db",
    "residual_over_level_db",
)
SPOKEN_DB = -28.0
"""Least power of the 10 ms before and after a splice, against the clip's level: between pauses nothing can be seen."""
PEAK = 2
"""Samples either way that belong to a peak: resampling spreads it."""
AROUND, NEAR, FAR, SIDE = count(0.008), count(0.0012), count(0.006), count(0.01)
PADDING_S = 0.25
"""Digital silence at the start that no decoder makes."""
FLOOR_DB = -60.0
"""What is this far under the clip's level counts as that much."""


@dataclass(frozen=True)
class Traits:
    """What is measured of a clip once, to look at any of its points: power of curvature and residual, [S] each."""

    clip: Clip
    bend: np.ndarray
    residual: np.ndarray

    @classmethod
    def of(cls, clip: Clip) -> Traits:
        return cls(clip, np.square(curvature(clip.samples)), np.square(prediction_residual(clip.samples)))

    def features(self, points: np.ndarray) -> np.ndarray:
        """The FEATURES at `points` int64 [P], [P, 5]."""
        peak = windows(self.residual, points, -PEAK, PEAK + 1).max(axis=1)
        return np.stack(
            (
                *self._sharpness(points, self.bend),
                *self._sharpness(points, self.residual),
                decibels(peak / self.clip.level, ratio(FLOOR_DB - 10)),
            ),
            axis=1,
        )

    def quieter_side_db(self, points: np.ndarray) -> np.ndarray:
        """Power of the 10 ms before or after, whichever is less, against the clip's level."""
        before = np.square(windows(self.clip.samples, points, -SIDE, 0)).mean(axis=1)
        after = np.square(windows(self.clip.samples, points, 0, SIDE)).mean(axis=1)
        return decibels(np.minimum(before, after) / self.clip.level, ratio(FLOOR_DB))

    def peaks(self, over_mean_db: float) -> np.ndarray:
        """Points where the curvature is the largest within 1 ms either way and far above its mean around."""
        width = 2 * AROUND + 1
        mean = np.convolve(self.bend, np.ones(width) / width, "same")
        high = np.flatnonzero(self.bend > ratio(over_mean_db) * mean)
        reach = count(0.001)
        return high[self.bend[high] >= windows(self.bend, high, -reach, reach + 1).max(axis=1)]

    def _sharpness(self, points: np.ndarray, power: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The peak against the mean of 8 ms either way, and against the largest between 1.2 and 6 ms away."""
        floor = self.clip.level * ratio(FLOOR_DB)
        peak = decibels(windows(power, points, -PEAK, PEAK + 1).max(axis=1), floor)
        mean = windows(power, points, -AROUND, AROUND).mean(axis=1)
        near = np.maximum(
            windows(power, points, -FAR, -NEAR).max(axis=1), windows(power, points, NEAR, FAR).max(axis=1)
        )
        return peak - decibels(mean, floor), peak - decibels(near, floor)


def frame_edges(clip: Clip, hop_s: float) -> np.ndarray:
    """Inner frame edges as sample indices, int64 [E].

    Frames are counted from the start of the file; from the first sound where so much digital silence precedes it that
    somebody has put it there.
    """
    from_file = -clip.offset_s % hop_s
    first = from_file if 0 < clip.offset_s < PADDING_S else hop_s
    times = np.arange(first or hop_s, len(clip.samples) / ANALYSIS_RATE_HZ, hop_s)
    points = np.round(times * ANALYSIS_RATE_HZ).astype(np.int64)
    return points[(points > 0) & (points < len(clip.samples) - 1)]
