"""Percentiles that say how far they can be trusted."""

from __future__ import annotations

import numpy as np
import pytest

from ttsbench.score.timing.percentiles import TAIL, distribution, interval_ranks, percentile


@pytest.mark.parametrize(("level", "least", "strong"), [(50, 2, 10), (90, 10, 50), (95, 20, 100), (99, 100, 500)])
def test_a_percentile_is_withheld_and_weak_below_its_numbers_of_rows(level: int, least: int, strong: int) -> None:
    """Red when p99 is given for 99 rows, withheld for 100, or not marked weak up to 499; and for p90 of 10 rows, where
    1 - 0.9 in float64 is a hair too small."""
    values = np.arange(strong, dtype=np.float64)
    withheld = percentile(values[: least - 1], level)
    assert withheld.value is None
    assert withheld.value_missing == f"p{level} needs {least} values, there are {least - 1}"
    enough = percentile(values[:least], level)
    assert enough.value == pytest.approx(level / 100 * (least - 1))
    assert enough.weak
    assert percentile(values[: strong - 1], level).weak
    assert not percentile(values, level).weak


@pytest.mark.parametrize(
    ("n", "p", "ranks"),
    [
        # Published tables of the sign-test interval of the median, at least 95 %.
        (5, 0.5, (None, None)),
        (6, 0.5, (1, 6)),
        (10, 0.5, (2, 9)),
        (20, 0.5, (6, 15)),
        (100, 0.5, (40, 61)),
        # The largest of n exceeds p99 with chance 1 - 0.99^n, which reaches 97.5 % at n = 368.
        (367, 0.99, (359, None)),
        (368, 0.99, (360, 368)),
    ],
)
def test_interval_ranks_are_the_published_ones(n: int, p: float, ranks: tuple[int | None, int | None]) -> None:
    """Red when a rank is off by one, or a normal approximation stands in for the binomial."""
    assert interval_ranks(n, p) == ranks


@pytest.mark.parametrize(("n", "level"), [(40, 50), (60, 90), (120, 95), (600, 99)])
def test_intervals_cover_as_often_as_they_say(n: int, level: int) -> None:
    """Each end is wrong at most 2.5 % of the time, against 6,000 simulated runs from a skewed distribution.

    The share of 6,000 has a standard deviation of 0.2 points, so 0.8 points (four of them) are allowed on top. Red when
    an end moves inwards by two ranks (by one, the table above is red), or p is taken for 1 - p.
    """
    rng = np.random.default_rng(level)
    samples = np.sort(rng.exponential(size=(6_000, n)), axis=1)
    true = -np.log(1 - level / 100)
    low, high = interval_ranks(n, level / 100)
    assert low is not None
    assert high is not None
    assert (samples[:, low - 1] > true).mean() <= TAIL + 0.008
    assert (samples[:, high - 1] < true).mean() <= TAIL + 0.008
    # Not wider than need be: one rank further in on both sides breaks the promise by the exact binomial.
    inner = ((samples[:, low] <= true) & (samples[:, high - 2] >= true)).mean()
    assert inner <= 1 - TAIL


def test_a_distribution_reports_its_values_unrounded_and_encloses_its_percentiles() -> None:
    """Red when values are used unsorted or rounded, or an interval does not hold its own percentile."""
    values = np.random.default_rng(0).lognormal(size=1_000)
    made = distribution(values.tolist(), {"no audio": 2})
    assert (made.values, made.rows_without_by_reason) == (1_000, {"no audio": 2})
    assert (made.smallest, made.largest) == (values.min(), values.max())
    for level in (50, 90, 95, 99):
        found = getattr(made, f"p{level}")
        assert found.value == np.percentile(values, level)
        assert found.low <= found.value <= found.high


def test_an_upper_end_beyond_the_largest_value_is_missing_not_the_largest() -> None:
    """Red when the largest of 100 values passes for the upper end of an interval of p99."""
    found = distribution([float(value) for value in range(100)]).p99
    assert (found.low, found.high) == (96, None)
    assert found.high_missing == "100 values are too few for the upper end of a 95 % interval of p99"


def test_values_that_are_not_independent_get_no_interval() -> None:
    """Red when gaps within a row, which share its luck, are counted as if each were a row."""
    found = distribution([1.0] * 1_000, dependent="they come in clumps").p50
    assert (found.value, found.low, found.low_missing) == (1.0, None, "they come in clumps")


def test_no_values_make_no_distribution() -> None:
    """Red when an empty sample gives a figure."""
    with pytest.raises(ValueError, match="no values"):
        distribution([])
