"""Which points of a clip are clicks or splices.

Weighted sums of a point's features are log odds (logistic regression; `python -m scripts.fit_pcm_seams` prints the
weights). They are asked at frame edges, where an engine joins what it decoded, and, for clicks, at any other point
under a higher bar, since there are a thousand times as many. Voices differ in how sharp their speech is by nature, so a
run's bars rise with what is found inside its frames, where nothing is joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ttsbench.records.pcm import FaultKind, PcmFinding
from ttsbench.score.pcm.seam import SPOKEN_DB, Traits, frame_edges
from ttsbench.score.pcm.signal import ANALYSIS_RATE_HZ, count


@dataclass(frozen=True)
class Weights:
    """A weighted sum of FEATURES: log odds against speech."""

    factors: tuple[float, ...]
    constant: float

    def of(self, features: np.ndarray) -> np.ndarray:
        return features @ np.asarray(self.factors) + self.constant


SPLICE_AT_EDGE = Weights((0.494, -0.247, 0.459, -0.268, 0.099), -6.31)
CLICK_AT_EDGE = Weights((0.162, 0.133, 0.095, 0.249, 0.132), 0.14)
CLICK_ANYWHERE = Weights((0.0, 0.0, 0.0, 0.434, 0.168), -3.27)
CLICK_OVER_SPLICE = Weights((-0.117, 0.049, -0.223, 0.297, 0.236), 4.07)
"""What a joint is, once it is one."""
SPLICE_BAR, CLICK_BAR, ANYWHERE_BAR = 0.9, 0.9, 5.0
"""Least log odds, however smooth a run's speech."""
ALLOWANCE_OF_SHORT_ROWS = 3.4
"""Log odds off the bar in a row too short for its text: something is missing, and one point shows best where."""
INSIDE = (0.25, 0.5, 0.75)
"""Places inside a frame that edges are compared with."""
TAIL_PCT, BODY_PCT = 99.9, 90.0
"""Where the natural tail of the scores is read, and where edges are compared with the inside."""
MARGIN = 0.4
"""Log odds by which a bar lies above the natural tail."""
PEAK_OVER_MEAN_DB = 9.0
"""Curvature of a point away from frame edges that is looked at at all."""
APART = count(0.005)
"""Joints nearer than that are one."""
AT_EDGE = count(0.0003)
"""Points this near an edge are the edge."""


@dataclass(frozen=True)
class Evidence:
    """The points of one clip that decide about its joints."""

    edges: np.ndarray
    """Frame edges as times in the file, seconds, [E]."""
    edge_features: np.ndarray
    """[E, features]."""
    edge_spoken: np.ndarray
    """Whether speech is on both sides, [E]."""
    inside_features: np.ndarray
    """Of points inside frames with speech on both sides, [I, features]."""
    elsewhere: tuple[tuple[float, float], ...]
    """Clicks away from frame edges: time and log odds."""

    @classmethod
    def of(cls, traits: Traits, hop_s: float) -> Evidence:
        edges = frame_edges(traits.clip, hop_s)
        shifts = np.round(np.asarray(INSIDE) * hop_s * ANALYSIS_RATE_HZ).astype(np.int64)
        inside = (edges[:, None] + shifts).ravel()
        inside = inside[inside < len(traits.clip.samples)]
        inside = inside[traits.quieter_side_db(inside) > SPOKEN_DB]
        return cls(
            edges=traits.clip.offset_s + edges / ANALYSIS_RATE_HZ,
            edge_features=traits.features(edges),
            edge_spoken=traits.quieter_side_db(edges) > SPOKEN_DB,
            inside_features=traits.features(inside),
            elsewhere=tuple(_elsewhere(traits, edges)),
        )


@dataclass(frozen=True)
class Bars:
    """Log odds that make a joint in one run."""

    splice: float
    click: float

    @classmethod
    def of(cls, clips: Sequence[Evidence]) -> Bars:
        """From all clips of a run. A fault in some edges does not move them: the tail is read inside frames."""
        if not clips:
            return cls(SPLICE_BAR, CLICK_BAR)
        edges = np.concatenate([clip.edge_features[clip.edge_spoken] for clip in clips])
        inside = np.concatenate([clip.inside_features for clip in clips])
        return cls(
            max(SPLICE_BAR, _above_nature(SPLICE_AT_EDGE, edges, inside)),
            max(CLICK_BAR, _above_nature(CLICK_AT_EDGE, edges, inside)),
        )


def _above_nature(weights: Weights, edges: np.ndarray, inside: np.ndarray) -> float:
    """Where the tail of the points inside frames would end, moved to the edges where these are the smoother."""
    if not len(edges) or not len(inside):
        return -np.inf
    edge, within = weights.of(edges), weights.of(inside)
    smoother = float(np.percentile(within, BODY_PCT) - np.percentile(edge, BODY_PCT))
    return float(np.percentile(within, TAIL_PCT)) - max(0.0, smoother) + MARGIN


def find_joints(evidence: Evidence, bars: Bars, too_short: bool) -> list[PcmFinding]:
    """Clicks and splices of a clip. `too_short`: whether the row lacks time for its text."""
    features, times = evidence.edge_features, evidence.edges
    splice = np.where(evidence.edge_spoken, SPLICE_AT_EDGE.of(features), -np.inf) - bars.splice
    over_bar = np.maximum(splice, CLICK_AT_EDGE.of(features) - bars.click)
    is_splice = evidence.edge_spoken & (CLICK_OVER_SPLICE.of(features) < 0)
    found = [
        _finding(times[i], FaultKind.SPLICE if is_splice[i] else FaultKind.CLICK, over_bar[i])
        for i in np.flatnonzero(over_bar > 0)
    ]
    if too_short and len(times) and not any(one.kind is FaultKind.SPLICE for one in found):
        best = int(splice.argmax())
        if splice[best] > -ALLOWANCE_OF_SHORT_ROWS:
            found.append(_finding(times[best], FaultKind.SPLICE, splice[best]))
    return found + [_finding(time, FaultKind.CLICK, score - ANYWHERE_BAR) for time, score in evidence.elsewhere]


def _finding(time_s: float, kind: FaultKind, strength: float) -> PcmFinding:
    return PcmFinding(kind=kind, start_s=float(time_s), length_s=0.0, strength=float(strength))


def _elsewhere(traits: Traits, edges: np.ndarray) -> list[tuple[float, float]]:
    """Time and log odds of clicks at points that are no frame edges."""
    points = traits.peaks(PEAK_OVER_MEAN_DB)
    scores = CLICK_ANYWHERE.of(traits.features(points))
    kept: list[tuple[float, float]] = []
    last = -APART
    for i in np.flatnonzero(scores > ANYWHERE_BAR):
        from_edge = np.abs(edges - points[i]).min(initial=len(traits.clip.samples))
        if from_edge > AT_EDGE and points[i] - last > APART:
            kept.append((traits.clip.at_s(int(points[i])), float(scores[i])))
            last = points[i]
    return kept
