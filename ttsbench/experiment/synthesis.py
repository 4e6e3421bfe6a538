"""`synth`: an engine over a corpus, written down as it happens.

A run folder is readable at any moment: the manifest says what is running, each row's record follows its WAV and trace.
A run that was killed or interrupted resumes from its records under the same settings, and ends as an unbroken one
would.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ttsbench.adapters.native import NativeEngine
from ttsbench.core import InvalidInput, Problem, ReferenceVoice
from ttsbench.corpus import Corpus
from ttsbench.experiment.drive import ClosedLoop, Job
from ttsbench.experiment.manifest import close_manifest, describe_run
from ttsbench.experiment.outcome import OutcomeWriter
from ttsbench.experiment.resume import clear_unfinished, is_lasting, open_jobs
from ttsbench.experiment.rows import RowClip, RowPlan
from ttsbench.records import (
    JsonlWriter,
    RequestRecord,
    RowStatus,
    RunFolder,
    RunManifest,
    RunStatus,
    read_requests,
    write_record,
)


@dataclass(frozen=True)
class Progress:
    """Where a run stands; `audio_s` and `elapsed_s` are of this sitting."""

    done: int
    charged: int
    """Rows of this sitting that did not end well."""
    audio_s: float
    elapsed_s: float


@dataclass(frozen=True)
class Synthesis:
    """One sitting of a run, ready to start: everything in it has been validated."""

    engine: NativeEngine
    corpus: Corpus
    plan: RowPlan
    folder: RunFolder
    concurrency: int
    stream: bool
    before: RunManifest | None = None
    """What an earlier sitting wrote; None for a new run."""

    @cached_property
    def manifest(self) -> RunManifest:
        """The manifest of this sitting, as it starts."""
        now = describe_run(self.engine, self.corpus, self.plan, self.concurrency, self.stream)
        if self.before is None:
            return now
        lasting = sum(is_lasting(record) for record in read_requests(self.folder.path).rows.values())
        return now.revised(created_at=self.before.created_at, sitting=self.before.sitting + 1, resumed_rows=lasting)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.before is not None and self.before.status is RunStatus.COMPLETE and not self.open_jobs()

    def open_jobs(self) -> list[Job]:
        """Rows that have no lasting record yet."""
        return open_jobs(self.corpus, read_requests(self.folder.path))

    def run(self, on_progress: Callable[[Progress], None], stopping: Callable[[], bool] = lambda: False) -> RunManifest:
        """Speak the open rows. Raises InvalidInput for a folder that cannot be made or that others write to."""
        started = self.manifest
        with self._open_requests() as requests:
            if self.before is not None:
                clear_unfinished(self.folder, self.open_jobs(), read_requests(self.folder.path))
            self.folder.wav.mkdir(exist_ok=True)
            write_record(self.folder.manifest, started)
            try:
                self._speak(requests, on_progress, stopping)
            except BaseException as error:
                self._close(RunStatus.INTERRUPTED if isinstance(error, KeyboardInterrupt) else RunStatus.BROKEN)
                raise
            return self._close(RunStatus.INTERRUPTED if self.open_jobs() else RunStatus.COMPLETE)

    def _open_requests(self) -> JsonlWriter:
        """The run folder's request log. Held open, it keeps other processes out of the folder."""
        where = f"--out {self.folder.path}"
        try:
            self.folder.path.mkdir(parents=True, exist_ok=True)
            return JsonlWriter(self.folder.requests)
        except BlockingIOError:
            raise InvalidInput(
                Problem(where, "a run that nobody is writing to", "one that another process has")
            ) from None
        except OSError as error:
            raise InvalidInput(Problem(where, "a folder that can be written to", str(error))) from error

    def _speak(
        self, requests: JsonlWriter, on_progress: Callable[[Progress], None], stopping: Callable[[], bool]
    ) -> None:
        """Run the open rows."""
        jobs = self.open_jobs()
        writer = OutcomeWriter(self.folder, self.plan, self._effective_language(), self.manifest.sitting, self.stream)
        tally = _Tally(len(self.corpus.rows) - len(jobs), on_progress)
        loop = ClosedLoop(self.engine, self.plan, self.concurrency, stopping)
        with JsonlWriter(self.folder.trace) as trace:
            for result in loop.run(jobs):
                record = writer.record(result)
                trace.extend(writer.traces(result))
                requests.append(record)
                tally.add(record)

    def _close(self, status: RunStatus) -> RunManifest:
        closed = close_manifest(self.manifest, read_requests(self.folder.path), status)
        write_record(self.folder.manifest, closed)
        return closed

    def _effective_language(self) -> str:
        """Only named voices have dialects, so one clip answers for all."""
        voice = self.plan.voice
        return self.engine.effective_language(
            self.plan.language, ReferenceVoice(Path()) if isinstance(voice, RowClip) else voice
        )


class _Tally:
    """Counts rows as they end, for whoever watches; what the manifest says is counted from the records."""

    def __init__(self, done: int, on_progress: Callable[[Progress], None]) -> None:
        self._done, self._charged, self._audio_s = done, 0, 0.0
        self._on_progress = on_progress
        self._began_ns = time.monotonic_ns()

    def add(self, record: RequestRecord) -> None:
        self._done += 1
        self._charged += record.status is not RowStatus.OK
        if record.status is RowStatus.OK:
            self._audio_s += record.duration_s or 0.0
        elapsed = (time.monotonic_ns() - self._began_ns) / 1e9
        self._on_progress(Progress(self._done, self._charged, self._audio_s, elapsed))
