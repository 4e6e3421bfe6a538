"""A set of frames that remembers what it had: half-open ranges, so that absurd frame numbers cost nothing."""

from __future__ import annotations

Range = tuple[int, int]


class FrameSet:
    """Frames seen so far, as disjoint ranges in order that do not touch."""

    def __init__(self) -> None:
        self._ranges: list[Range] = []

    def add(self, start: int, end: int) -> list[Range]:
        """Take [start, end) in; the parts of it that were there before."""
        if start >= end:
            return []
        before = [(max(a, start), min(b, end)) for a, b in self._ranges if a < end and start < b]
        touching = [(a, b) for a, b in self._ranges if a <= end and start <= b]
        apart = [(a, b) for a, b in self._ranges if not (a <= end and start <= b)]
        merged = (min([start, *(a for a, _ in touching)]), max([end, *(b for _, b in touching)]))
        self._ranges = sorted([*apart, merged])
        return before

    def holes(self, start: int, end: int) -> list[Range]:
        """The parts of [start, end) that are not there."""
        found = []
        for a, b in self._ranges:
            if start < min(a, end):
                found.append((start, min(a, end)))
            start = max(start, b)
        return [*found, (start, end)] if start < end else found
