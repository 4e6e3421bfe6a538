"""Faults of the samples as they are stored: no numbers, a flat top, a value that is held, a mean away from zero.

They are looked for in the file's own samples, since resampling would hide the first three.
"""

from __future__ import annotations

import numpy as np

from ttsbench.records.pcm import FaultKind, PcmFinding
from ttsbench.score.pcm.signal import DIGITAL_SILENCE, ratio, runs, sounding

FLAT_SAMPLES = 4
"""Equal samples in a row at the clip's largest value that make a flat top."""
FLAT_TOPS = 2
"""Flat tops that make clipping; one may be chance."""
HELD = 0.05
"""Least size of a value that is held, in standard deviations: what rounding leaves of room tone is held by nature."""
STUCK_S = 0.02
DC_DB = -14.0
"""Power of the mean against that of the clip: a fifth of its amplitude. Short clips reach a tenth by chance."""


def find_stored_faults(samples: np.ndarray, sample_rate_hz: int, clipped_samples: int) -> list[PcmFinding]:
    """Faults of a file's samples [S], finite; `clipped_samples` is how many its writer clamped."""
    first, end = sounding(samples)
    inner = samples[first:end].astype(np.float64)
    if not len(inner):
        return []
    held = runs(np.concatenate([[False], (np.diff(inner) == 0) & (np.abs(inner[1:]) > HELD * inner.std())]))
    held[:, 0] -= 1  # the run is of samples equal to the one before
    found = _clipping(inner, held, clipped_samples) + _stuck(held, sample_rate_hz) + _offset(inner)
    begin_s = first / sample_rate_hz
    return [
        one.revised(start_s=one.start_s / sample_rate_hz + begin_s, length_s=one.length_s / sample_rate_hz)
        for one in found
    ]


def find_not_finite(samples: np.ndarray, sample_rate_hz: int) -> list[PcmFinding]:
    """NaN and infinity among samples [S]."""
    wrong = np.flatnonzero(~np.isfinite(samples))
    if not len(wrong):
        return []
    length = int(wrong[-1] - wrong[0]) + 1
    return [
        PcmFinding(
            kind=FaultKind.NOT_FINITE,
            start_s=int(wrong[0]) / sample_rate_hz,
            length_s=length / sample_rate_hz,
            strength=float(len(wrong)),
        )
    ]


def _at(kind: FaultKind, begin: int, end: int, strength: float) -> PcmFinding:
    """A finding whose times are still sample counts."""
    return PcmFinding(kind=kind, start_s=float(begin), length_s=float(end - begin), strength=strength)


def _clipping(inner: np.ndarray, held: np.ndarray, clipped_samples: int) -> list[PcmFinding]:
    at_top = np.abs(inner[held[:, 0]]) >= np.abs(inner).max() - DIGITAL_SILENCE
    tops = held[at_top & (held[:, 1] - held[:, 0] >= FLAT_SAMPLES)]
    flat = int((tops[:, 1] - tops[:, 0]).sum())
    if len(tops) >= FLAT_TOPS:
        return [_at(FaultKind.CLIPPING, int(tops[0, 0]), int(tops[-1, 1]), float(max(flat, clipped_samples)))]
    return [_at(FaultKind.CLIPPING, 0, len(inner), float(clipped_samples))] if clipped_samples else []


def _stuck(held: np.ndarray, sample_rate_hz: int) -> list[PcmFinding]:
    longest = STUCK_S * sample_rate_hz
    return [
        _at(FaultKind.STUCK, int(begin), int(end), float((end - begin) / longest))
        for begin, end in held
        if end - begin > longest
    ]


def _offset(inner: np.ndarray) -> list[PcmFinding]:
    mean, power = float(inner.mean()), float(np.square(inner).mean())
    if mean**2 <= power * ratio(DC_DB):
        return []
    return [_at(FaultKind.DC_OFFSET, 0, len(inner), float(10 * np.log10(mean**2 / (power * ratio(DC_DB)))))]
