"""A closed loop around an engine: so many rows in flight, the next one handed over as one ends.

Rows whose content cannot be spoken never reach the engine. A stop request (Ctrl-C) hands over nothing more and cancels
what is in flight, so the engine is left empty and every row that was begun has its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ttsbench.core import AudioChunk, Engine, RowError, SpeechRequest
from ttsbench.corpus import CorpusRow


@dataclass(frozen=True)
class Job:
    """One row to run: its place in the corpus and which attempt this is."""

    index: int
    row: CorpusRow
    attempt: int


@dataclass
class RowResult:
    """What came back for one job: chunks up to the final one, or the problem that kept it from the engine."""

    job: Job
    request: SpeechRequest | None = None
    problem: RowError | None = None
    submitted_at_ns: int | None = None
    chunks: list[AudioChunk] = field(default_factory=list)


def drive(
    engine: Engine,
    jobs: Iterable[Job],
    request_for: Callable[[Job], SpeechRequest],
    problem_of: Callable[[Job], RowError | None],
    concurrency: int,
    stopping: Callable[[], bool] = lambda: False,
) -> Iterator[RowResult]:
    """Results in the order in which rows end. Times are monotonic nanoseconds."""
    waiting = iter(jobs)
    running: dict[str, RowResult] = {}
    while True:
        yield from _hand_over(engine, waiting, running, request_for, problem_of, concurrency, stopping)
        if not running:
            return
        for chunk in engine.chunks():
            result = running[chunk.request_id]
            result.chunks.append(chunk)
            if chunk.final:
                del running[chunk.request_id]
                yield result
                yield from _hand_over(engine, waiting, running, request_for, problem_of, concurrency, stopping)
            if stopping():
                for request_id in list(running):
                    engine.cancel(request_id)


def _hand_over(
    engine: Engine,
    waiting: Iterator[Job],
    running: dict[str, RowResult],
    request_for: Callable[[Job], SpeechRequest],
    problem_of: Callable[[Job], RowError | None],
    concurrency: int,
    stopping: Callable[[], bool],
) -> Iterator[RowResult]:
    """Fill the engine up; rows that cannot be spoken come straight back."""
    while len(running) < concurrency and not stopping():
        job = next(waiting, None)
        if job is None:
            return
        if problem := problem_of(job):
            yield RowResult(job, problem=problem)
            continue
        request = request_for(job)
        running[request.id] = RowResult(job, request, submitted_at_ns=time.monotonic_ns())
        engine.submit(request)
