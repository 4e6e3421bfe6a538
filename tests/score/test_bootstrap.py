"""Intervals over rows: right where the answer is known, and the same each time."""

from __future__ import annotations

import numpy as np
import pytest

from ttsbench.score.bootstrap import RESAMPLES, SEED, intervals
from ttsbench.score.wer import WordEdits, aggregate


def test_the_interval_of_a_mean_is_the_known_one() -> None:
    """400 rows of standard deviation 10: the mean moves by 10 / 20 = 0.5, so 1.96 * 0.5 on either side.

    Tolerance: each end is a quantile of 10,000 draws, off by about 0.013 (2.7 % of 0.5) at one sigma; 0.06 is four.
    Red when too few rows are drawn each time, or the level is another.
    """
    values = np.random.default_rng(1).standard_normal(400)
    values = 50 + 10 * (values - values.mean()) / values.std()
    mean, corpus = intervals(values, None)
    assert mean is not None
    assert mean.low_pct == pytest.approx(50 - 0.98, abs=0.06)
    assert mean.high_pct == pytest.approx(50 + 0.98, abs=0.06)
    assert (mean.level_pct, mean.resamples, mean.seed, corpus) == (95, RESAMPLES, SEED, None)


def test_both_figures_come_from_the_same_draws() -> None:
    """With equal word counts the two figures are one. Red when errors and words are drawn apart."""
    errors = np.array([0, 1, 2, 5, 0, 0, 1])
    mean, corpus = intervals(100 * errors / 4, (list(errors), [4] * 7))
    assert mean is not None
    assert corpus is not None
    assert (corpus.low_pct, corpus.high_pct) == pytest.approx((mean.low_pct, mean.high_pct))


def test_the_interval_is_the_same_each_time() -> None:
    """Red when the draws are not seeded: two scorings of one run would differ."""
    values = np.arange(20.0)
    assert intervals(values, None) == intervals(values, None)


def test_equal_rows_leave_no_room() -> None:
    """Red when draws leave rows out of the mean."""
    mean, _ = intervals(np.full(5, 25.0), None)
    assert mean is not None
    assert (mean.low_pct, mean.high_pct) == (25, 25)


def test_what_has_no_interval_has_none() -> None:
    """One row; or rows without words, where some draws have nothing to divide by. Red when NaN gets into a record."""
    assert intervals(np.array([50.0]), ([1], [2])) == (None, None)
    stats = aggregate([WordEdits(0, 0, 0, 0), WordEdits(1, 0, 0, 2)])
    assert stats.sentence_mean_interval is not None
    assert (stats.corpus_pct, stats.corpus_interval) == (50, None)
