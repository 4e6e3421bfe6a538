"""How far a word error rate would move with other rows of the kind: the percentile bootstrap over rows.

Rows are drawn with replacement, as many as there are, and both figures are worked out from the same draws. The seed is
fixed and stands in the record: the same rows give the same interval, to the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ttsbench.records.wer import BootstrapInterval

RESAMPLES = 10_000
LEVEL_PCT = 95.0
SEED = 0
BLOCK = 1_000
"""Draws made at once: bounds the memory, 8 MB per thousand rows."""


def intervals(
    wer_pct: np.ndarray, counted: tuple[Sequence[int], Sequence[int]] | None
) -> tuple[BootstrapInterval | None, BootstrapInterval | None]:
    """Intervals of the sentence mean of `wer_pct` [rows], and of the corpus WER from (errors, reference words) per row.

    Null for a single row, which says nothing about others; the second also without counts, or if a draw has no words.
    """
    rows = len(wer_pct)
    if rows < 2:
        return None, None
    errors, words = (None, None) if counted is None else (np.array(counted[0]), np.array(counted[1]))
    means, corpus = [], []
    rng = np.random.default_rng(SEED)
    for _ in range(RESAMPLES // BLOCK):
        drawn = rng.integers(0, rows, (BLOCK, rows))
        means.append(wer_pct[drawn].mean(axis=1))
        if errors is not None and words is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                corpus.append(100 * errors[drawn].sum(axis=1) / words[drawn].sum(axis=1))
    return _interval(means), _interval(corpus)


def _interval(blocks: Sequence[np.ndarray]) -> BootstrapInterval | None:
    if not blocks or not all(np.isfinite(block).all() for block in blocks):
        return None
    tail = (100 - LEVEL_PCT) / 2
    low, high = np.percentile(np.concatenate(blocks), [tail, 100 - tail])
    return BootstrapInterval(
        low_pct=float(low), high_pct=float(high), level_pct=LEVEL_PCT, resamples=RESAMPLES, seed=SEED
    )
