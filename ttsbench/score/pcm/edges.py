"""Frame edges against points inside frames, over a whole run: alike where frames join unheard.

One row's edge may be sharp by chance, a run's edges as a whole may not. And where chunks join badly, the clicks keep a
distance of one chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ttsbench.records.pcm import EdgeComparison, FaultKind, PcmFinding
from ttsbench.score.pcm.joints import Evidence
from ttsbench.score.pcm.seam import FEATURES

SHARPNESS = FEATURES.index("residual_over_mean_db")
EDGE_S = 0.001
"""How far from an edge a click may lie and count as at it."""
FEWEST_DISTANCES = 5
KEPT = 0.9
"""Share of the distances that must be multiples of the period."""


def compare_edges(clips: Sequence[Evidence]) -> EdgeComparison:
    """Sharpness of all edges and of all points inside frames of a run's clips."""
    none = np.zeros(0)
    edges = [clip.edge_features[clip.edge_spoken, SHARPNESS] for clip in clips]
    inside = [clip.inside_features[:, SHARPNESS] for clip in clips]
    return _compare(np.concatenate([none, *edges]), np.concatenate([none, *inside]))


def _compare(edges: np.ndarray, inside: np.ndarray) -> EdgeComparison:
    no_edges = None if len(edges) else "no frame edge with speech on both sides"
    no_inside = None if len(inside) else "no point with speech on both sides"
    return EdgeComparison(
        edges=len(edges),
        inside=len(inside),
        edge_median_db=_percentile(edges, 50),
        edge_median_db_missing=no_edges,
        inside_median_db=_percentile(inside, 50),
        inside_median_db_missing=no_inside,
        edge_p99_db=_percentile(edges, 99),
        edge_p99_db_missing=no_edges,
        inside_p99_db=_percentile(inside, 99),
        inside_p99_db_missing=no_inside,
        edge_sharper_probability=None if no_edges or no_inside else _chance_above(edges, inside),
        edge_sharper_probability_missing=no_edges or no_inside,
    )


def click_period(rows: Sequence[Sequence[PcmFinding]], hop_s: float) -> int | None:
    """Frames between clicks at frame edges, where nine in ten of their distances are its multiples; else None."""
    distances: Counter[int] = Counter()
    for findings in rows:
        frames = np.asarray([one.start_s / hop_s for one in findings if one.kind is FaultKind.CLICK])
        at_edge = np.abs(frames - frames.round()) * hop_s < EDGE_S
        distances.update(int(distance) for distance in np.diff(np.sort(frames[at_edge].round())))
    total = distances.total()
    if total < FEWEST_DISTANCES:
        return None
    for period in range(max(distances), 1, -1):
        if sum(times for distance, times in distances.items() if distance % period == 0) >= KEPT * total:
            return period
    return None


def _percentile(values: np.ndarray, percent: float) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None


def _chance_above(ones: np.ndarray, others: np.ndarray) -> float:
    ranked = np.sort(others)
    below = np.searchsorted(ranked, ones, "left") + np.searchsorted(ranked, ones, "right")
    return float(below.mean() / (2 * len(ranked)))
