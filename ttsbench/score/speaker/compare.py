"""Cosines between rows, reference clips and voices, x 100. All vectors are of length 1.

Shapes: N rows, K reference clips, V voices, D vector width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ttsbench.records.speaker import SimilarityStats
from ttsbench.score.bootstrap import BLOCK, LEVEL_PCT, RESAMPLES, SEED


def cosine_x100(one: np.ndarray, other: np.ndarray) -> float:
    """Of two vectors [D], in double precision."""
    return 100 * float(one.astype(np.float64) @ other.astype(np.float64))


def nearest_foreign(vector: np.ndarray, references: np.ndarray, own: int) -> tuple[int, float] | None:
    """The nearest of `references` [K, D] that is not `own`, and its cosine; None if there is no other."""
    if len(references) < 2:
        return None
    cosines = references.astype(np.float64) @ vector
    cosines[own] = -np.inf
    nearest = int(cosines.argmax())
    return nearest, 100 * float(cosines[nearest])


@dataclass(frozen=True)
class Told:
    """A row among the voices of its run."""

    consistency_x100: float | None
    """Cosine with the mean of its voice's other rows; None if it has none."""
    nearest: int | None
    """The voice with the nearest mean; None without a mean of its own voice's others, or with one voice only."""


def tell_voices(vectors: np.ndarray, voices: Sequence[int]) -> list[Told]:
    """Each of `vectors` [N, D], of which row n is to have voice `voices[n]`, against the voices' means.

    A row never meets itself: it is taken out of its own voice's mean, which would else be near for that alone.
    """
    if not len(vectors):
        return []
    rows = vectors.astype(np.float64)
    sums = np.zeros((max(voices) + 1, rows.shape[1]))
    np.add.at(sums, list(voices), rows)
    sizes = np.bincount(voices)
    told = []
    for vector, own in zip(rows, voices, strict=True):
        if sizes[own] < 2:
            told.append(Told(None, None))
            continue
        means = sums.copy()
        means[own] -= vector
        cosines = means @ vector / np.maximum(np.linalg.norm(means, axis=1), 1e-12)
        told.append(Told(100 * float(cosines[own]), int(cosines.argmax()) if len(sizes) > 1 else None))
    return told


def summarise(cosines_x100: Sequence[float | None]) -> SimilarityStats | None:
    """Of the rows that have a cosine; None if no row has one. The interval is a bootstrap over rows, the seed fixed."""
    known = np.array([cosine for cosine in cosines_x100 if cosine is not None])
    if not len(known):
        return None
    low, high = _mean_interval(known) if len(known) > 1 else (None, None)
    reason = None if len(known) > 1 else "one row"
    return SimilarityStats(
        rows=len(known),
        mean_x100=float(known.mean()),
        p5_x100=float(np.percentile(known, 5)),
        mean_low_x100=low,
        mean_low_x100_missing=reason,
        mean_high_x100=high,
        mean_high_x100_missing=reason,
    )


def _mean_interval(values: np.ndarray) -> tuple[float, float]:
    rng = np.random.default_rng(SEED)
    blocks = [
        values[rng.integers(0, len(values), (BLOCK, len(values)))].mean(axis=1) for _ in range(RESAMPLES // BLOCK)
    ]
    tail = (100 - LEVEL_PCT) / 2
    low, high = np.percentile(np.concatenate(blocks), [tail, 100 - tail])
    return float(low), float(high)
