"""Holes cut into sound: near silence that begins and ends within a couple of milliseconds.

A stop consonant is quiet as well, but the sound before it dies away. So both ends must be abrupt; less so where the
hole is as deep as only digital silence is.
"""

from __future__ import annotations

import numpy as np

from ttsbench.records.pcm import FaultKind, PcmFinding
from ttsbench.score.pcm.signal import ANALYSIS_RATE_HZ, Clip, count, ratio, runs

SMOOTHING = count(0.002)
HOLE_DB, DEEP_DB = -50.0, -70.0
"""Power in a hole at most, and within its ends in a deep one, against the clip's level."""
SOUND_DB, SOUND_BY_DEEP_DB = -35.0, -55.0
"""Power on either side of a hole at least, and of a deep one."""
SHORTEST_S = 0.02
EDGE, BESIDE, RINGING = count(0.002), count(0.006), count(0.006)
"""How long an end may take, how much beside it is measured, and how far a resampler's ringing reaches into a hole."""


def find_dropouts(clip: Clip) -> list[PcmFinding]:
    """Every hole of at least 20 ms."""
    if clip.level == 0:
        return []
    power = np.convolve(np.square(clip.samples), np.ones(SMOOTHING) / SMOOTHING, "same")
    found = []
    for begin, end in runs(power < clip.level * ratio(HOLE_DB)):
        if end - begin < count(SHORTEST_S) or begin < BESIDE or end > len(power) - BESIDE:
            continue
        beside = min(_power(clip, begin - BESIDE, begin + EDGE), _power(clip, end - EDGE, end + BESIDE))
        inside = _power(clip, begin + RINGING, end - RINGING)
        deep = inside < clip.level * ratio(DEEP_DB)
        if beside > clip.level * ratio(SOUND_BY_DEEP_DB if deep else SOUND_DB):
            found.append(
                PcmFinding(
                    kind=FaultKind.DROPOUT,
                    start_s=clip.at_s(int(begin)),
                    length_s=float((end - begin) / ANALYSIS_RATE_HZ),
                    strength=float(10 * np.log10(beside / max(inside, clip.level * ratio(-100)))),
                )
            )
    return found


def _power(clip: Clip, begin: int, end: int) -> float:
    return float(np.square(clip.samples[begin:end]).mean())
