"""The bound on a rate that was seen a few times, or never."""

from __future__ import annotations

import math

import pytest

from ttsbench.trace import upper_bound


@pytest.mark.parametrize("trials", [1, 16, 400, 1088, 17_408])
def test_nothing_in_n_has_its_closed_form_and_is_near_three_over_n(trials: int) -> None:
    """Red when the bound is two-sided (3.7 / n) or zero."""
    bound = upper_bound(0, trials)
    assert bound == pytest.approx(1 - 0.05 ** (1 / trials), rel=1e-9)
    if trials >= 400:
        assert bound == pytest.approx(3 / trials, rel=0.01)  # -ln 0.05 is 2.996, the next term 4.5 / n^2


@pytest.mark.parametrize(("events", "trials"), [(1, 10), (3, 16), (470, 1088), (17_000, 17_408)])
def test_so_few_events_have_a_chance_of_one_in_twenty_at_the_bound(events: int, trials: int) -> None:
    """The definition itself, summed exactly. Red when an event is left out of the sum."""
    bound = upper_bound(events, trials)
    logs = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * math.log(bound) + (trials - k) * math.log1p(-bound)
        for k in range(events + 1)
    ]  # fmt: skip
    # lgamma of numbers of this size is good to some 1e-11 of the largest term.
    assert math.fsum(map(math.exp, logs)) == pytest.approx(0.05, rel=1e-6)
    assert events / trials < bound < 1


def test_published_values() -> None:
    """Clopper-Pearson tables, one-sided 95 %: 1 of 10 gives 0.394, 5 of 50 gives 0.199."""
    assert upper_bound(1, 10) == pytest.approx(0.3942, abs=5e-5)
    assert upper_bound(5, 50) == pytest.approx(0.1988, abs=5e-4)


def test_all_of_n_bounds_nothing() -> None:
    assert upper_bound(7, 7) == 1


@pytest.mark.parametrize(("events", "trials"), [(0, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(events: int, trials: int) -> None:
    """Red when no trials at all read as a rate."""
    with pytest.raises(ValueError, match="of"):
        upper_bound(events, trials)
