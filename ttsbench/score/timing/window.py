"""A sitting's event timeline: rows handed over and rows ended, in the order in which that happened.

Concurrency is read off the events, never off buckets of a second. The steady window of a closed loop lies between the
start burst and the drain: from the first moment at full concurrency to the last hand-over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Flight:
    """One attempt's time in the engine, seconds on its sitting's clock; no end when none was recorded."""

    submitted_s: float
    finished_s: float | None


@dataclass(frozen=True)
class Window:
    """The half-open interval (start, end]: what happens at its start belongs to the time before."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s

    def __contains__(self, at_s: float) -> bool:
        return self.start_s < at_s <= self.end_s


def peak_concurrency(flights: Sequence[Flight]) -> int:
    """Most rows in flight at once; a row is in flight up to the moment it ends, and no longer."""
    return max((in_flight for _, in_flight in _timeline(flights)), default=0)


def steady_window(flights: Sequence[Flight], concurrency: int) -> Window | str:
    """The window in which `concurrency` rows are kept in flight, or why there is none."""
    start_s = next((at_s for at_s, in_flight in _timeline(flights) if in_flight >= concurrency), None)
    if start_s is None:
        return f"never {concurrency} rows in flight"
    window = Window(start_s, max(flight.submitted_s for flight in flights))
    return window if window.length_s > 0 else "no row was handed over after full concurrency was reached"


def _timeline(flights: Sequence[Flight]) -> Iterator[tuple[float, int]]:
    """(time, rows in flight from then on) at each event; at one instant, ends come before hand-overs."""
    starts = [(flight.submitted_s, 1) for flight in flights]
    ends = [(flight.finished_s, -1) for flight in flights if flight.finished_s is not None]
    in_flight = 0
    for at_s, change in sorted(starts + ends):
        in_flight += change
        yield at_s, in_flight
