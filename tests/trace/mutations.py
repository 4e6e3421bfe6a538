"""Ways to spoil a clean trace, and what the audit must then say: exactly these faults.

A mutation takes a clean trace of at least four emissions and gives the spoilt one, the emission the fault is at (None
for the request as a whole) and the set of faults. Each is what some broken engine would do, so everything that the
mutation does not name stays right: indices and times are those of a working sender unless they are the fault.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.trace.traces import HOP, RATE, Trace
from ttsbench.records.frames import FrameFault as F
from ttsbench.trace import Emission


@dataclass(frozen=True)
class Spoilt:
    """A spoilt trace and what must be found in it."""

    trace: Trace
    at: int | None
    faults: set[F]


Mutation = Callable[[Trace, random.Random], Spoilt]
MUTATIONS: dict[str, Mutation] = {}


def mutation(function: Mutation) -> Mutation:
    MUTATIONS[function.__name__] = function
    return function


def renumbered(emissions: list[Emission]) -> list[Emission]:
    """With indices and times in order, as a sender gives them that does not know what it sends."""
    return [e._replace(chunk_index=k, emitted_at_ns=1000 + 80 * k) for k, e in enumerate(emissions)]


def inner(trace: Trace, rng: random.Random) -> int:
    """An emission that has frames and is neither the first nor the last."""
    return rng.randrange(1, len(trace.emissions) - 1)


def not_last(trace: Trace, rng: random.Random) -> int:
    return rng.randrange(len(trace.emissions) - 1)


@mutation
def an_emission_never_arrives(trace: Trace, rng: random.Random) -> Spoilt:
    at = not_last(trace, rng)
    left = trace.emissions[:at] + trace.emissions[at + 1 :]
    return Spoilt(trace.received(left), at, {F.MISSING, F.NOT_CONTIGUOUS, F.INDEX_NOT_CONSECUTIVE, F.ROW_SAMPLES})


@mutation
def an_emission_is_skipped_by_the_sender(trace: Trace, rng: random.Random) -> Spoilt:
    at = not_last(trace, rng)
    left = renumbered(trace.emissions[:at] + trace.emissions[at + 1 :])
    return Spoilt(trace.received(left), at, {F.MISSING, F.NOT_CONTIGUOUS, F.ROW_SAMPLES})


@mutation
def frames_are_lost_at_the_head_of_an_emission(trace: Trace, rng: random.Random) -> Spoilt:
    at = not_last(trace, rng)
    e = trace.emissions[at]
    start = e.start + rng.randrange(1, e.end - e.start)
    made = trace.changed(at, start=start, samples=(e.end - start) * HOP)
    return Spoilt(made, at, {F.MISSING, F.NOT_CONTIGUOUS, F.ROW_SAMPLES})


@mutation
def frames_are_lost_at_the_end_of_an_emission(trace: Trace, rng: random.Random) -> Spoilt:
    at = not_last(trace, rng)
    e = trace.emissions[at]
    end = e.end - rng.randrange(1, e.end - e.start)
    made = trace.changed(at, end=end, samples=(end - e.start) * HOP)
    return Spoilt(made, at + 1, {F.MISSING, F.NOT_CONTIGUOUS, F.ROW_SAMPLES})


@mutation
def the_tail_is_lost(trace: Trace, rng: random.Random) -> Spoilt:
    """A short trace that is whole in itself: only the producer's count shows what is not there."""
    kept = trace.emissions[: rng.randrange(1, len(trace.emissions) - 1)]
    end = trace.emissions[-1]._replace(start=kept[-1].end, end=kept[-1].end, samples=0)
    return Spoilt(trace.received(renumbered([*kept, end])), None, {F.MISSING, F.ROW_SAMPLES})


@mutation
def an_emission_comes_twice_in_a_row(trace: Trace, rng: random.Random) -> Spoilt:
    at = not_last(trace, rng)
    made = renumbered([*trace.emissions[: at + 1], *trace.emissions[at:]])
    return Spoilt(trace.received(made), at + 1, {F.REPEATED, F.NOT_CONTIGUOUS, F.REPLAY, F.ROW_SAMPLES})


@mutation
def an_emission_comes_again_under_its_old_index(trace: Trace, rng: random.Random) -> Spoilt:
    at = not_last(trace, rng)
    made = trace.received([*trace.emissions[: at + 1], *trace.emissions[at:]])
    faults = {F.REPEATED, F.NOT_CONTIGUOUS, F.REPLAY, F.ROW_SAMPLES, F.INDEX_REPEATED}
    return Spoilt(made, at + 1, faults)


@mutation
def an_emission_comes_again_later(trace: Trace, rng: random.Random) -> Spoilt:
    at = rng.randrange(len(trace.emissions) - 2)
    later = rng.randrange(at + 2, len(trace.emissions))
    made = renumbered([*trace.emissions[:later], trace.emissions[at], *trace.emissions[later:]])
    faults = {F.REPEATED, F.NOT_CONTIGUOUS, F.REPLAY, F.OUT_OF_ORDER, F.ROW_SAMPLES}
    return Spoilt(trace.received(made), later, faults)


@mutation
def frames_are_replayed(trace: Trace, rng: random.Random) -> Spoilt:
    """An emission reaches back into the one before it, as with a boundary taken from the chunk size of the moment."""
    at = inner(trace, rng)
    e, before = trace.emissions[at], trace.emissions[at - 1]
    start = e.start - rng.randint(1, before.end - before.start)
    made = trace.changed(at, start=start, samples=(e.end - start) * HOP)
    return Spoilt(made, at, {F.REPEATED, F.NOT_CONTIGUOUS, F.REPLAY, F.ROW_SAMPLES})


@mutation
def two_emissions_change_places(trace: Trace, rng: random.Random) -> Spoilt:
    at = rng.randrange(len(trace.emissions) - 2)
    made = list(trace.emissions)
    made[at : at + 2] = made[at + 1], made[at]
    return Spoilt(trace.received(renumbered(made)), at + 1, {F.NOT_CONTIGUOUS, F.OUT_OF_ORDER, F.REPLAY})


@mutation
def two_emissions_overtake_each_other(trace: Trace, rng: random.Random) -> Spoilt:
    """As above, by the wire: they bring their indices and times along."""
    at = rng.randrange(len(trace.emissions) - 2)
    made = list(trace.emissions)
    made[at : at + 2] = made[at + 1], made[at]
    faults = {F.NOT_CONTIGUOUS, F.OUT_OF_ORDER, F.REPLAY, F.INDEX_NOT_CONSECUTIVE, F.TIME_BACKWARDS}
    return Spoilt(trace.received(made), at + 1, faults)


@mutation
def frames_appear_that_were_never_generated(trace: Trace, rng: random.Random) -> Spoilt:
    """Frames computed past the end of speech are let out."""
    at = len(trace.emissions) - 1
    e = trace.emissions[at]
    end = e.end + rng.randint(1, 25)
    return Spoilt(trace.changed(at, end=end, samples=(end - e.start) * HOP), at, {F.PHANTOM, F.ROW_SAMPLES})


@mutation
def the_first_frame_is_not_zero(trace: Trace, rng: random.Random) -> Spoilt:
    """The frame counter of the slot's last request goes on."""
    by = rng.randint(1, 50)
    made = [e._replace(start=e.start + by, end=e.end + by) for e in trace.emissions]
    return Spoilt(trace.received(made), 0, {F.MISSING, F.PHANTOM, F.NOT_CONTIGUOUS})


@mutation
def the_end_is_not_marked(trace: Trace, rng: random.Random) -> Spoilt:
    at = len(trace.emissions) - 1
    empty = trace.emissions[at].start == trace.emissions[at].end
    made = trace.changed(at, terminal=False, finish_reason=None)
    return Spoilt(made, None, {F.NO_TERMINAL} | ({F.EMPTY_EMISSION} if empty else set()))


@mutation
def the_end_is_signalled_twice(trace: Trace, rng: random.Random) -> Spoilt:
    last = trace.emissions[-1]
    made = [*trace.emissions, last._replace(chunk_index=last.chunk_index + 1, start=last.end, samples=0)]
    return Spoilt(trace.received(made), len(made) - 1, {F.SECOND_TERMINAL})


@mutation
def an_emission_comes_after_the_end(trace: Trace, rng: random.Random) -> Spoilt:
    """The end is told with an emission that is not the last one."""
    at = not_last(trace, rng)
    last = trace.emissions[-1]
    made = trace.changed(at, terminal=True, finish_reason=last.finish_reason)
    made = made.changed(-1, terminal=False, finish_reason=None)
    empty = {F.EMPTY_EMISSION} if last.start == last.end else set()
    return Spoilt(made, at + 1, {F.AFTER_TERMINAL} | empty)


@mutation
def an_emission_is_another_rows(trace: Trace, rng: random.Random) -> Spoilt:
    at = rng.randrange(len(trace.emissions))
    return Spoilt(trace.changed(at, utterance_id="u1"), at, {F.FOREIGN})


@mutation
def frames_of_another_row_come_in_between(trace: Trace, rng: random.Random) -> Spoilt:
    """Under its own name, as an engine sends it that writes into the wrong request's stream."""
    at, start, frames = inner(trace, rng), trace.emissions[-1].end + 7, rng.randint(1, 25)
    alien = trace.emissions[0]._replace(utterance_id="u1", start=start, end=start + frames, samples=frames * HOP)
    made = renumbered([*trace.emissions[:at], alien, *trace.emissions[at:]])
    faults = {F.FOREIGN, F.PHANTOM, F.NOT_CONTIGUOUS, F.OUT_OF_ORDER, F.REPLAY, F.ROW_SAMPLES}
    return Spoilt(trace.received(made), at, faults)


@mutation
def an_emission_is_a_sample_off(trace: Trace, rng: random.Random) -> Spoilt:
    at = not_last(trace, rng)
    made = trace.changed(at, samples=trace.emissions[at].samples + rng.choice((-1, 1)))
    return Spoilt(made, at, {F.EMISSION_SAMPLES, F.ROW_SAMPLES})


@mutation
def samples_move_from_one_emission_to_the_next(trace: Trace, rng: random.Random) -> Spoilt:
    """The row's sum is right."""
    at = not_last(trace, rng)
    made = trace.changed(at, samples=trace.emissions[at].samples - 1)
    return Spoilt(made.changed(at + 1, samples=made.emissions[at + 1].samples + 1), at, {F.EMISSION_SAMPLES})


@mutation
def the_row_is_a_sample_off(trace: Trace, rng: random.Random) -> Spoilt:
    """Trimmed after it was traced."""
    made = replace(trace.request, samples=trace.request.samples + rng.choice((-1, 1)))
    return Spoilt(Trace(trace.emissions, made), None, {F.ROW_SAMPLES})


@mutation
def the_sample_rate_changes(trace: Trace, rng: random.Random) -> Spoilt:
    at = rng.randrange(len(trace.emissions))
    return Spoilt(trace.changed(at, sample_rate_hz=RATE // 2), at, {F.SAMPLE_RATE})


@mutation
def the_record_has_another_rate(trace: Trace, rng: random.Random) -> Spoilt:
    """The file was written at a rate that neither engine nor trace knows of."""
    made = replace(trace.request, recorded_rate_hz=rng.choice((RATE // 2, 44_100)))
    return Spoilt(Trace(trace.emissions, made), None, {F.SAMPLE_RATE})


@mutation
def an_emission_holds_nothing(trace: Trace, rng: random.Random) -> Spoilt:
    at = not_last(trace, rng)
    e = trace.emissions[at]
    made = renumbered([*trace.emissions[:at], e._replace(end=e.start, samples=0), *trace.emissions[at:]])
    return Spoilt(trace.received(made), at, {F.EMPTY_EMISSION})


@mutation
def an_emission_ends_before_it_starts(trace: Trace, rng: random.Random) -> Spoilt:
    at = inner(trace, rng)
    made = trace.changed(at, end=trace.emissions[at].start - 1, samples=0)
    return Spoilt(made, at, {F.NEGATIVE_RANGE, F.MISSING, F.NOT_CONTIGUOUS, F.ROW_SAMPLES})


@mutation
def an_index_is_used_twice(trace: Trace, rng: random.Random) -> Spoilt:
    at = len(trace.emissions) - 1
    return Spoilt(trace.changed(at, chunk_index=rng.randrange(at)), at, {F.INDEX_REPEATED})


@mutation
def an_index_is_left_out(trace: Trace, rng: random.Random) -> Spoilt:
    at = rng.randrange(len(trace.emissions))
    made = [e._replace(chunk_index=e.chunk_index + (k >= at)) for k, e in enumerate(trace.emissions)]
    return Spoilt(trace.received(made), at, {F.INDEX_NOT_CONSECUTIVE})


@mutation
def time_runs_backwards(trace: Trace, rng: random.Random) -> Spoilt:
    at = rng.randrange(1, len(trace.emissions))
    before = trace.emissions[at - 1].emitted_at_ns
    return Spoilt(trace.changed(at, emitted_at_ns=before - 1), at, {F.TIME_BACKWARDS})


@mutation
def a_row_stops_short_of_its_limit(trace: Trace, rng: random.Random) -> Spoilt:
    made = trace.changed(-1, finish_reason="length")
    limit = (trace.request.frames_generated or 0) + rng.randint(1, 3)
    return Spoilt(
        replace(made, request=replace(made.request, finish_reason="length", frame_limit=limit)), None, {F.LENGTH_LIMIT}
    )


@mutation
def a_row_runs_past_its_limit(trace: Trace, rng: random.Random) -> Spoilt:
    limit = (trace.request.frames_generated or 0) - rng.randint(1, 3)
    return Spoilt(replace(trace, request=replace(trace.request, frame_limit=limit)), None, {F.LENGTH_LIMIT})


@mutation
def trace_and_record_end_differently(trace: Trace, rng: random.Random) -> Spoilt:
    other = "failed" if trace.request.finish_reason == "cancelled" else "cancelled"
    return Spoilt(trace.changed(-1, finish_reason=other), len(trace.emissions) - 1, {F.FINISH_MISMATCH})
