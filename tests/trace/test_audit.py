"""The frame trace audit finds every fault, by name and place, and none where there is none."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from tests.trace.mutations import MUTATIONS
from tests.trace.traces import HOP, Trace, clean_trace, counts_by_definition, spans, trace_of
from ttsbench.records.frames import FrameFault
from ttsbench.trace import FrameAudit, audit_request
from ttsbench.trace.ranges import FrameSet

SEEDS = 40
"""Spoilt traces per mutation: more than a thousand in all."""


def audit(trace: Trace) -> FrameAudit:
    return audit_request(trace.emissions, trace.request)


def test_there_are_a_thousand_spoilt_traces() -> None:
    assert len(MUTATIONS) * SEEDS >= 1000


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_spoilt_trace_is_found_out(name: str) -> None:
    """Exactly the faults that belong to the mutation, at its place, with the counts of the published formulas.

    Red when the line in `audit._Rules` that yields the fault is deleted, when a comparison there is turned by one, or
    when one request's emissions are sorted before they are audited.
    """
    for seed in range(SEEDS):
        rng = random.Random(f"{name} {seed}")
        clean = clean_trace(rng, least_emissions=3)
        assert audit(clean).findings == (), f"seed {seed} does not start clean"
        spoilt = MUTATIONS[name](clean, rng)
        found = audit(spoilt.trace)
        assert {finding.fault for finding in found.findings} == spoilt.faults, f"seed {seed}: {found.findings}"
        assert spoilt.at in {finding.emission for finding in found.findings}, f"seed {seed}: {found.findings}"
        expected = counts_by_definition(spoilt.trace)
        assert {field: getattr(found.counts, field) for field in expected} == expected, f"seed {seed}"


def test_clean_traces_of_any_chunking_have_no_finding() -> None:
    """Red when an empty terminal, a row of no frames, a one-frame chunk, a cancelled row or one cut at its limit counts
    as a fault: 1,000 traces of 0 to 400 frames, and the plainest ones by hand.
    """
    by_hand = [trace_of([(0, 0)]), trace_of([(0, 0)], "cancelled"), trace_of([(0, 1)]), trace_of(spans(5, 5), "length")]
    drawn = [clean_trace(random.Random(seed)) for seed in range(1000)]
    assert {trace.request.finish_reason for trace in drawn} == {"stop", "length", "cancelled", "failed"}
    assert any(trace.request.frames_generated == 0 for trace in drawn)
    for trace in [*by_hand, *drawn]:
        found = audit(trace)
        assert found.findings == ()
        assert found.counts.frames_emitted == found.counts.frames_generated
        assert found.counts.terminals == 1


def test_a_boundary_taken_from_the_current_chunk_size_is_counted_frame_by_frame() -> None:
    """The published bug: chunks of 25, 50, 25 and 25 frames, each thought to start at its number x its own size.

    They carry [0, 25), [50, 100), [50, 75) and [75, 100) of 100 frames. Red when a boundary is compared with anything
    but absolute frame numbers.
    """
    sizes = (25, 50, 25, 25)
    ranges = [(k * size, (k + 1) * size) for k, size in enumerate(sizes)]
    found = audit(trace_of(ranges, frames=100))
    counts = found.counts
    assert (counts.frames_missing, counts.gap_events) == (25, 1)
    assert (counts.frames_repeated, counts.replay_events, counts.out_of_order) == (50, 2, 0)
    where = {(f.fault, f.emission, f.start_frame, f.end_frame, f.position) for f in found.findings}
    assert (FrameFault.MISSING, 1, 25, 50, "steady") in where
    assert (FrameFault.REPEATED, 2, 50, 75, "steady") in where
    assert (FrameFault.REPEATED, 3, 75, 100, "tail") in where


def test_a_lost_tail_cannot_be_seen_without_the_producers_count() -> None:
    """10 of 15 frames arrive. Red when an engine that does not say what it generated passes for one that said 10."""
    known = trace_of(spans(5, 10, 10), frames=15)
    (gap,) = [f for f in audit(known).findings if f.fault is FrameFault.MISSING]
    assert (gap.start_frame, gap.end_frame, gap.emission, gap.position) == (10, 15, None, "tail")
    unknown = audit(Trace(known.emissions, replace(known.request, frames_generated=None)))
    assert unknown.findings == ()
    assert (unknown.counts.frames_generated, unknown.counts.frames_phantom) == (None, None)
    assert unknown.counts.frames_generated_missing


def test_a_gap_is_seen_without_the_producers_count() -> None:
    """Red when nothing is audited where the end cannot be."""
    trace = trace_of([(0, 5), (8, 12), (12, 12)])
    found = audit(Trace(trace.emissions, replace(trace.request, frames_generated=None)))
    assert (found.counts.frames_missing, found.counts.gap_events) == (3, 1)


def test_a_request_without_an_emission_has_lost_everything() -> None:
    """Red when nothing to look at means nothing wrong."""
    request = replace(trace_of([(0, 7)]).request, samples=7 * HOP)
    found = audit_request([], request)
    assert {f.fault for f in found.findings} == {FrameFault.MISSING, FrameFault.NO_TERMINAL, FrameFault.ROW_SAMPLES}
    assert (found.counts.frames_missing, found.counts.terminals) == (7, 0)


def test_an_index_that_falls_back_is_out_of_step_as_one_that_skips() -> None:
    """Indices 0, 2, 1, 3: each of the last three. Red when only an index too high counts."""
    trace = trace_of(spans(2, 4, 6, 8))
    made = [e._replace(chunk_index=index) for e, index in zip(trace.emissions, (0, 2, 1, 3), strict=True)]
    found = audit(trace.received(made)).findings
    assert [(f.fault, f.emission) for f in found] == [(FrameFault.INDEX_NOT_CONSECUTIVE, at) for at in (1, 2, 3)]


@pytest.mark.parametrize(
    ("lost", "position"), [((0, 5), "first"), ((5, 10), "steady"), ((10, 15), "tail"), ((15, 20), "tail")]
)
def test_a_loss_is_placed_at_the_start_in_between_or_at_the_end(lost: tuple[int, int], position: str) -> None:
    """20 frames in fives, one five lost; the last emission is [15, 20). Red when a place is taken for another."""
    ranges = [span for span in spans(5, 10, 15, 20) if span != lost]
    (gap,) = [f for f in audit(trace_of(ranges, frames=20)).findings if f.fault is FrameFault.MISSING]
    assert (gap.start_frame, gap.end_frame, gap.position) == (*lost, position)


def test_a_set_of_frames_is_one() -> None:
    """Against plain sets. Red when touching ranges do not merge, an overlap is cut short, or a hole is overlooked."""
    rng = random.Random(0)
    for _ in range(300):
        ranges, seen = FrameSet(), set[int]()
        for _ in range(rng.randint(0, 8)):
            start = rng.randint(0, 30)
            end = start + rng.randint(-1, 10)
            before = [f for a, b in ranges.add(start, end) for f in range(a, b)]
            assert before == sorted(seen.intersection(range(start, end)))
            seen |= set(range(start, end))
        holes = ranges.holes(0, 35)
        assert [f for a, b in holes for f in range(a, b)] == sorted(set(range(35)) - seen)
        assert all(a[1] < b[0] for a, b in itertools.pairwise(holes)), "two holes that are one"
