"""Stretches without speech that are longer than speech pauses: silence anywhere, room tone at the end.

These count the whole file: padding is silence, and is found as such.
"""

from __future__ import annotations

import numpy as np

from ttsbench.records.pcm import FaultKind, PcmFinding
from ttsbench.score.pcm.signal import FRAME_S, Clip, ratio, runs

SILENT_DB = -45.0
"""Power of a silent frame at most, against the clip's level."""
LONGEST_SILENCE_S = 1.0
SPEECH_DB = -25.0
"""Power of a frame that counts as speech."""
LONGEST_TONE_S = 2.0


def find_quiet(clip: Clip, duration_s: float) -> list[PcmFinding]:
    """Silences and room tone of a clip taken from a file of `duration_s`."""
    if clip.level == 0:
        return [_finding(FaultKind.SILENCE, 0.0, duration_s, LONGEST_SILENCE_S)] if duration_s else []
    found = [
        _finding(FaultKind.SILENCE, begin, end, LONGEST_SILENCE_S)
        for begin, end in _spans(clip.frame_power < clip.level * ratio(SILENT_DB), clip, duration_s)
        if end - begin > LONGEST_SILENCE_S
    ]
    speech = np.flatnonzero(clip.frame_power > clip.level * ratio(SPEECH_DB))
    last, end = clip.offset_s + (int(speech[-1]) + 1) * FRAME_S, clip.offset_s + len(clip.frame_power) * FRAME_S
    if end - last > LONGEST_TONE_S:
        found.append(_finding(FaultKind.ROOM_TONE, last, end, LONGEST_TONE_S))
    return found


def _spans(silent: np.ndarray, clip: Clip, duration_s: float) -> list[tuple[float, float]]:
    """Silent stretches in file time; what was set aside at either end belongs to its neighbour."""
    frames = np.concatenate([[True], silent, [True]])
    times = np.concatenate([[0.0], clip.offset_s + np.arange(len(silent) + 1) * FRAME_S, [duration_s]])
    return [(float(times[begin]), float(times[end])) for begin, end in runs(frames)]


def _finding(kind: FaultKind, begin: float, end: float, longest: float) -> PcmFinding:
    return PcmFinding(kind=kind, start_s=begin, length_s=end - begin, strength=(end - begin) / longest)
