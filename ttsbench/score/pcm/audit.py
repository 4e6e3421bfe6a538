"""One clip under every detector, in two steps: what it says by itself, and its joints by the bars of its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ttsbench.records.pcm import FaultKind, PcmFinding
from ttsbench.score.pcm.dropout import find_dropouts
from ttsbench.score.pcm.joints import Bars, Evidence, find_joints
from ttsbench.score.pcm.quiet import find_quiet
from ttsbench.score.pcm.repeat import find_repeats
from ttsbench.score.pcm.seam import Traits
from ttsbench.score.pcm.signal import Clip
from ttsbench.score.pcm.stored import find_not_finite, find_stored_faults

HOLE_EDGE_S = 0.005
"""A joint this near the end of a hole is that end."""


@dataclass(frozen=True)
class Heard:
    """What one clip says by itself."""

    found: tuple[PcmFinding, ...]
    """All but joints."""
    joints: Evidence | None
    """What decides about its joints; None for silence."""

    def findings(self, bars: Bars) -> tuple[PcmFinding, ...]:
        """Everything wrong with the clip, by time."""
        if self.joints is None:
            return _by_time(self.found)
        too_short = any(one.kind is FaultKind.TOO_SHORT for one in self.found)
        holes = [one for one in self.found if one.kind is FaultKind.DROPOUT]
        joints = find_joints(self.joints, bars, too_short)
        return _by_time([*self.found, *(one for one in joints if not _ends_hole(one, holes))])


def hear(
    samples: np.ndarray, sample_rate_hz: int, hop_s: float, pace: Sequence[PcmFinding] = (), clipped_samples: int = 0
) -> Heard:
    """Samples [S] (full scale 1.0) under every detector; `pace` is what is known of the row's length already.

    `hop_s`: seconds of a codec frame. Samples that are no numbers are found, then heard as silence.
    """
    wrong = find_not_finite(samples, sample_rate_hz)
    clean = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0) if wrong else samples
    clip = Clip.of(clean, sample_rate_hz)
    found = [*pace, *wrong, *find_stored_faults(clean, sample_rate_hz, clipped_samples)]
    found += find_quiet(clip, len(samples) / sample_rate_hz)
    if clip.level == 0:
        return Heard(tuple(found), None)
    found += find_dropouts(clip) + find_repeats(clip)
    return Heard(tuple(found), Evidence.of(Traits.of(clip), hop_s))


def _ends_hole(joint: PcmFinding, holes: list[PcmFinding]) -> bool:
    ends = [end for hole in holes for end in (hole.start_s, hole.start_s + hole.length_s)]
    return any(abs(joint.start_s - end) <= HOLE_EDGE_S for end in ends)


def _by_time(findings: Sequence[PcmFinding]) -> tuple[PcmFinding, ...]:
    return tuple(sorted(findings, key=lambda one: (one.start_s, one.kind)))
