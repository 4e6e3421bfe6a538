"""Concurrency and the steady window, on the event timeline."""

from __future__ import annotations

import pytest

from ttsbench.score.timing.window import Flight, Window, peak_concurrency, steady_window

# Two slots; row 2 takes the place of row 0 at once, row 3 that of row 1 after a while, row 4 that of row 2.
ROWS = [Flight(0.0, 3.0), Flight(0.5, 4.0), Flight(3.0, 5.0), Flight(4.25, 8.0), Flight(5.5, 6.0)]


def test_the_peak_counts_rows_in_flight_at_one_moment() -> None:
    """Red when a row that ends as the next is handed over counts beside it, or rows are counted per second (4 rows
    touch the second from 4 to 5... and 3 that from 5 to 6)."""
    assert peak_concurrency(ROWS) == 2
    assert peak_concurrency([*ROWS, Flight(2.9, 3.1)]) == 3
    assert peak_concurrency([]) == 0
    assert peak_concurrency([Flight(0.0, None), Flight(9.0, 9.5)]) == 2  # a row whose end nobody saw


def test_the_steady_window_runs_from_full_concurrency_to_the_last_hand_over() -> None:
    """Red when it starts with the first hand-over (0.0) or the first end, or ends with the last end (8.0)."""
    assert steady_window(ROWS, 2) == Window(0.5, 5.5)
    assert steady_window(list(reversed(ROWS)), 2) == Window(0.5, 5.5)


def test_what_happens_as_the_window_opens_belongs_to_the_time_before() -> None:
    """Red when the row that completes the start burst counts as one handed over at full load."""
    window = Window(0.5, 5.5)
    assert [at_s in window for at_s in (0.25, 0.5, 0.75, 5.5, 5.75)] == [False, False, True, True, False]


@pytest.mark.parametrize(
    ("flights", "why"),
    [
        (ROWS[:1], "never 2 rows in flight"),
        (ROWS[:2], "no row was handed over after full concurrency was reached"),
        ([Flight(0.0, 1.0), Flight(1.0, 2.0), Flight(2.0, 3.0)], "never 2 rows in flight"),
    ],
)
def test_a_run_that_never_is_steady_has_no_window(flights: list[Flight], why: str) -> None:
    """Red when a list as short as the concurrency, or an engine that takes one row at a time, gets a steady figure."""
    assert steady_window(flights, 2) == why
