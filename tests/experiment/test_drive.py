"""The closed loop: rows in flight, rows that never fly, and engines that break their contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.experiment.engines import PLAN, ScriptedEngine, chunk, jobs, row
from ttsbench.core import AudioChunk, Finish, FinishReason
from ttsbench.experiment.drive import ClosedLoop, Job


@pytest.mark.parametrize("concurrency", [1, 2, 3, 10])
def test_every_row_ends_once_and_no_more_than_asked_are_in_flight(concurrency: int) -> None:
    """Goes red when the loop hands over one row too many, waits for a batch to drain, or forgets a row."""
    engine = ScriptedEngine()
    names = [f"u{i}" for i in range(7)]
    results = list(ClosedLoop(engine, PLAN, concurrency).run(jobs(*names)))
    assert sorted(r.job.row.utterance_id for r in results) == names
    assert engine.most_alive == min(concurrency, 7)
    assert all([c.frames for c in r.chunks] == [(0, 1), (1, 2), (2, 3)] for r in results)


def test_rows_that_cannot_be_spoken_never_reach_the_engine() -> None:
    """Goes red when an empty row is submitted, takes a place in flight, or is left out of the results."""
    engine = ScriptedEngine()
    rows = [row("a"), row("b", " "), row("c", "?!"), row("d")]
    results = ClosedLoop(engine, PLAN, 1).run(Job(i, r, 1) for i, r in enumerate(rows))
    problems = {r.job.row.utterance_id: r.problem and r.problem.code for r in results}
    assert problems == {"a": None, "b": "empty_text", "c": "no_speakable_text", "d": None}
    assert engine.submitted == ["a", "d"]


def test_a_stop_cancels_what_is_in_flight_and_starts_nothing_more() -> None:
    """Goes red when a stop waits for rows in flight, drops them without an end, or hands over another row."""
    engine = ScriptedEngine(frames=100)
    stop: list[int] = []
    loop = ClosedLoop(engine, PLAN, 2, stopping=lambda: bool(stop))
    pieces = loop.run(jobs("a", "b", "c", "d"))
    engine_chunks = engine.chunks

    def chunks(stopping: Callable[[], bool]) -> Iterator[AudioChunk]:
        for number, one in enumerate(engine_chunks(stopping)):
            if number == 5:
                stop.append(1)
            yield one

    engine.chunks = chunks  # type: ignore[method-assign, assignment]
    results = list(pieces)
    assert [r.job.row.utterance_id for r in results] == ["a", "b"]
    finishes = [r.chunks[-1].finish for r in results]
    assert [f and f.reason for f in finishes] == [FinishReason.CANCELLED] * 2
    assert not engine.alive
    assert all(len(r.chunks) < 10 for r in results)


def test_an_engine_that_loses_a_row_is_found_out() -> None:
    """Goes red when the loop spins for ever, or ends as if all were well, after an engine forgot a final chunk."""

    class Forgetful(ScriptedEngine):
        def chunks(self, stopping: Callable[[], bool] = lambda: False) -> Iterator[AudioChunk]:
            self.alive.clear()
            yield from ()

    with pytest.raises(RuntimeError, match="without a final chunk for a#1"):
        list(ClosedLoop(Forgetful(), PLAN, 1).run(jobs("a", "b")))


def test_a_chunk_after_the_end_is_found_out() -> None:
    """Goes red when audio that follows a final chunk is dropped or joined to its row."""

    class Talkative(ScriptedEngine):
        def chunks(self, stopping: Callable[[], bool] = lambda: False) -> Iterator[AudioChunk]:
            yield chunk("a#1", finish=Finish(FinishReason.STOP))
            yield chunk("a#1", 1, (1, 2))

    with pytest.raises(RuntimeError, match="chunk 1 of a#1, which is not running"):
        list(ClosedLoop(Talkative(), PLAN, 2).run(jobs("a", "b")))
