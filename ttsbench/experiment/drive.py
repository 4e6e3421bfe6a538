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
from ttsbench.experiment.rows import RowPlan


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


class ClosedLoop:
    """Runs jobs, at most `concurrency` of them in the engine at once."""

    def __init__(
        self, engine: Engine, plan: RowPlan, concurrency: int, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._concurrency = concurrency
        self._stopping = stopping
        self._running: dict[str, RowResult] = {}

    def run(self, jobs: Iterable[Job]) -> Iterator[RowResult]:
        """Results in the order in which rows end; times are monotonic nanoseconds.

        Raises RuntimeError for an engine that breaks its contract: a row without an end, or a chunk after it.
        """
        waiting = iter(jobs)
        yield from self._hand_over(waiting)
        while self._running:
            before = list(self._running)
            yield from self._listen(waiting, self._stopping)
            if self._running and self._stopping():
                for request_id in list(self._running):
                    self._engine.cancel(request_id)
                yield from self._listen(waiting, lambda: False)
            if lost := [request_id for request_id in before if request_id in self._running]:
                raise RuntimeError(f"the engine ended without a final chunk for {', '.join(lost)}")

    def _listen(self, waiting: Iterator[Job], stopping: Callable[[], bool]) -> Iterator[RowResult]:
        """Results as they end, with new rows in their place."""
        for chunk in self._engine.chunks(stopping):
            if result := self._take(chunk):
                yield result
                yield from self._hand_over(waiting)

    def _take(self, chunk: AudioChunk) -> RowResult | None:
        """File a chunk under its row; the row's result if this was its last one."""
        result = self._running.get(chunk.request_id)
        if result is None:
            raise RuntimeError(f"the engine sent chunk {chunk.index} of {chunk.request_id}, which is not running")
        result.chunks.append(chunk)
        return self._running.pop(chunk.request_id) if chunk.final else None

    def _hand_over(self, waiting: Iterator[Job]) -> Iterator[RowResult]:
        """Fill the engine up; rows that cannot be spoken come straight back."""
        while len(self._running) < self._concurrency and not self._stopping():
            job = next(waiting, None)
            if job is None:
                return
            if problem := self._plan.problem(job.row):
                yield RowResult(job, problem=problem)
                continue
            request = self._plan.request(job.row, job.attempt)
            self._running[request.id] = RowResult(job, request, submitted_at_ns=time.monotonic_ns())
            self._engine.submit(request)
