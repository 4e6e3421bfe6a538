"""How long a text should take in this run, and rows that take far more or far less.

A row's length is that of its sounding part: digital silence put at its ends makes no cut row whole, and no row long.
Length against characters is a straight line through the run's own rows (Theil and Sen: the median of the slopes of all
pairs, then the median of the intercepts), which a quarter of rows gone wrong cannot bend. A row is too short where it
lacks both a share of its length and many times the usual spread. Without enough rows nothing is expected of any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ttsbench.records.pcm import FaultKind, PcmFinding
from ttsbench.score.pcm.signal import sounding

FEWEST_ROWS = 8
MOST_ROWS = 400
"""Rows the line is drawn through; evenly spread ones of a longer run."""
TOO_LONG, TOO_SHORT = 3.0, 1.4
"""Length over the length expected, and the other way round."""
SPREADS = 4.5
"""Usual spreads (1.4826 times the median deviation of the logarithms) by which a row must be too short."""
LEAST_SPREAD = 0.05


@dataclass(frozen=True)
class Pace:
    """seconds = base_s + per_character_s * characters, give or take `spread` in the logarithm."""

    base_s: float
    per_character_s: float
    spread: float

    @classmethod
    def of(cls, characters: Sequence[int], seconds: Sequence[float]) -> Pace | None:
        """The pace of spoken rows; None where they are too few or of one length, or longer texts take no longer."""
        if len(characters) < FEWEST_ROWS:
            return None
        chosen = np.unique(np.linspace(0, len(characters) - 1, MOST_ROWS).round().astype(int))
        x, y = np.asarray(characters, np.float64)[chosen], np.asarray(seconds)[chosen]
        one, other = np.triu_indices(len(x), 1)
        apart = x[one] != x[other]
        if not apart.any():
            return None
        slope = float(np.median(((y[one] - y[other])[apart]) / (x[one] - x[other])[apart]))
        base = float(np.median(y - slope * x))
        line = base + slope * x
        if slope <= 0 or line.min() <= 0:
            return None
        off = np.log(y / line)
        return cls(base, slope, float(1.4826 * np.median(np.abs(off - np.median(off)))))

    def expected_s(self, characters: int) -> float | None:
        """Length expected of a text; None for one so short that the line means nothing there."""
        seconds = self.base_s + self.per_character_s * characters
        return seconds if seconds > 0 else None


@dataclass(frozen=True)
class Length:
    """A file's length and, within it, that of its sounding part; seconds."""

    file_s: float
    begin_s: float
    sounding_s: float

    @classmethod
    def of(cls, samples: np.ndarray, sample_rate_hz: int) -> Length:
        """From a file's samples [S], full scale 1.0; what is no number makes no sound."""
        first, end = sounding(np.where(np.isfinite(samples), samples, 0))
        return cls(len(samples) / sample_rate_hz, first / sample_rate_hz, (end - first) / sample_rate_hz)


def find_pace_faults(length: Length, expected_s: float | None, spread: float, at_limit: bool) -> list[PcmFinding]:
    """Whether a row was cut at its limit, and whether its length fits its text."""
    found = [_finding(FaultKind.LENGTH_LIMIT, 0.0, length.file_s, length.file_s)] if at_limit else []
    if expected_s is not None and length.sounding_s > 0:
        longer, shorter = length.sounding_s / expected_s, expected_s / length.sounding_s
        if longer > TOO_LONG:
            found.append(_finding(FaultKind.TOO_LONG, length.begin_s, length.sounding_s, longer))
        if shorter > TOO_SHORT and np.log(shorter) > SPREADS * max(spread, LEAST_SPREAD):
            found.append(_finding(FaultKind.TOO_SHORT, length.begin_s, length.sounding_s, shorter))
    return found


def _finding(kind: FaultKind, start_s: float, length_s: float, strength: float) -> PcmFinding:
    return PcmFinding(kind=kind, start_s=start_s, length_s=length_s, strength=float(strength))
