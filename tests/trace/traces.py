"""Clean traces of every kind, and the counts of a trace by the plainest reading of their definitions."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, replace

from ttsbench.records.request import FinishName
from ttsbench.trace import Emission, Request

HOP, RATE = 1920, 24_000


@dataclass(frozen=True)
class Trace:
    """One request and what it emitted."""

    emissions: list[Emission]
    request: Request

    def received(self, emissions: list[Emission]) -> Trace:
        """The same request with other emissions, and as many samples as they bring."""
        return Trace(emissions, replace(self.request, samples=sum(e.samples for e in emissions)))

    def changed(self, at: int, **fields: object) -> Trace:
        """With one emission changed."""
        made = list(self.emissions)
        made[at] = made[at]._replace(**fields)  # type: ignore[arg-type]
        return self.received(made)


def spans(*ends: int) -> list[tuple[int, int]]:
    """Ranges that follow each other from 0 to these ends."""
    return list(zip((0, *ends[:-1]), ends, strict=True))


def trace_of(ranges: list[tuple[int, int]], finish: FinishName = "stop", frames: int | None = None) -> Trace:
    """One emission per range, the last of them final."""
    last = len(ranges) - 1
    emissions = [
        Emission("u0", k, 1000 + 80 * k, a, b, (b - a) * HOP, RATE, k == last, finish if k == last else None)
        for k, (a, b) in enumerate(ranges)
    ]
    generated = ranges[-1][1] if frames is None else frames
    limit = generated if finish == "length" else generated + 100
    samples = sum(e.samples for e in emissions)
    return Trace(emissions, Request("u0", 1, generated, limit, finish, samples, RATE, HOP, RATE))


def clean_trace(rng: random.Random, least_emissions: int = 0) -> Trace:
    """Any chunking of any number of frames, the end on the last frames or on an emission without any.

    With `least_emissions` there are at least so many emissions, each of two frames or more, before the last one.
    """
    sizes = [rng.randint(2, 30) for _ in range(rng.randint(least_emissions, least_emissions + 12))]
    if not least_emissions:
        sizes = [rng.choice((1, size)) for size in sizes]
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    last = (ends or [0])[-1] + rng.choice((0, 0, 1, rng.randint(2, 30)))
    finish: FinishName = rng.choice(("stop", "length", "cancelled", "failed")) if last else "stop"
    return trace_of(spans(*ends, last), finish)


def counts_by_definition(trace: Trace) -> dict[str, int]:
    """The published formulas, frame by frame."""
    generated = trace.request.frames_generated
    assert generated is not None
    ranges = [(e.start, e.end) for e in trace.emissions]
    covered = Counter(f for a, b in ranges for f in range(a, b))
    missing = [f for f in range(generated) if covered[f] == 0]
    return {
        "frames_missing": len(missing),
        "gap_events": sum(f - 1 not in missing for f in missing),
        "frames_repeated": sum(count - 1 for count in covered.values()),
        "frames_phantom": sum(count for f, count in covered.items() if not 0 <= f < generated),
        "out_of_order": sum(b[0] < a[0] for a, b in itertools.pairwise(ranges)),
        "replay_events": sum(a < max([0, *(e for _, e in ranges[:k])]) for k, (a, _) in enumerate(ranges)),
        "terminals": sum(e.terminal for e in trace.emissions),
    }
