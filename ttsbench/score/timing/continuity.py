"""One row's chunks as they appeared, and what a player would have made of them.

Two definitions of an underrun are in circulation, and both are here. The *cumulative deficit* holds every chunk against
a player that starts at the first chunk and never pauses; the *stalls* are those of a player that waits when it runs dry
and then goes on. The sum of the stalls equals the cumulative deficit.

All sums are whole numbers of ticks, 1 / (10^9 x sample rate) seconds, in which both a nanosecond and a sample are
whole. So nothing is rounded before the last division, and that identity holds exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

NS_PER_S = 10**9


@dataclass(frozen=True)
class ChunkLog:
    """Chunks that hold samples, at least one, in the order in which they appeared."""

    sample_rate_hz: int
    at_ns: tuple[int, ...]
    """When each appeared; any clock, never running backwards."""
    samples: tuple[int, ...]
    """Samples of each, above zero."""
    end_ns: int
    """When the row's final chunk appeared, with samples or without."""

    def __len__(self) -> int:
        return len(self.at_ns)

    @property
    def durations_s(self) -> list[float]:
        return [count / self.sample_rate_hz for count in self.samples]

    @property
    def gaps_s(self) -> list[float]:
        """Time from each chunk to the next; one less than there are chunks."""
        return [(later - earlier) / NS_PER_S for earlier, later in pairwise(self.at_ns)]

    @cached_property
    def stall_ticks(self) -> list[int]:
        """For each chunk after the first: how long a player that pauses and goes on waits for it."""
        at, length = self._arrival_ticks, self._length_ticks
        stalls, deadline = [], at[0] + length[0]
        for arrival, duration in zip(at[1:], length[1:], strict=True):
            stalls.append(max(0, arrival - deadline))
            deadline = max(deadline, arrival) + duration
        return stalls

    @cached_property
    def lag_ticks(self) -> list[int]:
        """For each chunk after the first: how far behind a player that never pauses it is; below zero when early."""
        played = accumulate(self._length_ticks)  # by the time each next chunk is due
        return [arrival - due for arrival, due in zip(self._arrival_ticks[1:], played, strict=False)]

    @property
    def underrun_cumulative_s(self) -> float:
        """U_cum. ValueError for a single chunk, as for all below."""
        return max(0, max(self.lag_ticks)) / self._ticks_per_s

    @property
    def underrun_largest_s(self) -> float:
        """U_max."""
        return max(self.stall_ticks) / self._ticks_per_s

    @property
    def stalls(self) -> int:
        return sum(stall > 0 for stall in self.stall_ticks)

    @property
    def late_chunks(self) -> int:
        return sum(lag > 0 for lag in self.lag_ticks)

    def heard_after_s(self, sample: int) -> float:
        """From the first chunk to when a player that pauses and goes on reaches that sample of the row, from 0."""
        before = sum(end <= sample for end in accumulate(self.samples))  # chunks played whole by then
        return (sample * NS_PER_S + sum(self.stall_ticks[:before])) / self._ticks_per_s

    @property
    def _ticks_per_s(self) -> int:
        return NS_PER_S * self.sample_rate_hz

    @property
    def _arrival_ticks(self) -> list[int]:
        return [(at - self.at_ns[0]) * self.sample_rate_hz for at in self.at_ns]

    @property
    def _length_ticks(self) -> list[int]:
        return [count * NS_PER_S for count in self.samples]
