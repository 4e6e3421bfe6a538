"""`synth`: an engine over a corpus, written down as it happens.

A run folder is readable at any moment: the manifest says what is running, each row's record follows its WAV. A run that
was killed or interrupted resumes from its records under the same settings, and ends as an unbroken one would.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import ttsbench
from ttsbench.adapters.native import NativeEngine
from ttsbench.core import EngineInfo, InvalidInput, Problem, ReferenceVoice
from ttsbench.corpus import Corpus, order
from ttsbench.experiment import host
from ttsbench.experiment.drive import Job, RowResult, drive
from ttsbench.experiment.outcome import OutcomeWriter, voice_record
from ttsbench.experiment.rows import RowClip, RowPlan
from ttsbench.models.source import checkpoint_hashes
from ttsbench.records import (
    CheckpointRecord,
    CorpusRecord,
    EngineRecord,
    JsonlWriter,
    RequestLog,
    RequestRecord,
    RowCounts,
    RowStatus,
    RunFolder,
    RunManifest,
    RunSettings,
    RunStatus,
    SamplingSettings,
    TraceRecord,
    canonical_sha256,
    combined_sha256,
    read_jsonl,
    read_manifest,
    read_requests,
    utc_now,
    write_atomic,
    write_record,
)

RUNNING = "still running"
MAY_MOVE = ("checkpoint.name", "checkpoint.source", "corpus.name", "corpus.path", "engine.model")
"""What may differ on resuming: where things lie. What they hold is compared by hash."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands; `audio_s` and `elapsed_s` are of this sitting."""

    done: int
    expected: int
    charged: int
    """Rows that did not end well."""
    audio_s: float
    elapsed_s: float


@dataclass(frozen=True)
class Synthesis:
    """One run, ready to start: everything in it has been validated."""

    engine: NativeEngine
    corpus: Corpus
    plan: RowPlan
    out: Path
    concurrency: int
    stream: bool

    def run(
        self, resume: bool, on_progress: Callable[[Progress], None], stopping: Callable[[], bool] = lambda: False
    ) -> RunManifest:
        """Speak every row that has no lasting record yet. Raises InvalidInput when `resume` does not fit the folder."""
        folder = RunFolder(self.out)
        manifest = self._describe()
        manifest = self._take_up(folder, manifest) if resume else manifest
        folder.wav.mkdir(parents=True, exist_ok=True)
        write_record(folder.manifest, manifest)
        try:
            self._speak(folder, manifest, on_progress, stopping)
        except BaseException as error:
            status = RunStatus.INTERRUPTED if isinstance(error, KeyboardInterrupt) else RunStatus.BROKEN
            write_record(folder.manifest, close_manifest(manifest, read_requests(self.out), status, None))
            raise
        return read_manifest(self.out)

    def _take_up(self, folder: RunFolder, now: RunManifest) -> RunManifest:
        """The manifest of the next sitting, once everything that shapes the result is known to be the same."""
        before = read_manifest(folder.path)
        problems = [
            Problem(f"{folder.manifest}: {name}", str(old), str(new), "resume under the same settings, or use another --out")
            for part in ("profile", "corpus", "checkpoint", "engine", "settings")
            for name, old, new in _differences(part, getattr(before, part), getattr(now, part))
        ]
        if problems:
            raise InvalidInput(problems)
        log = read_requests(folder.path)
        drop_unfinished(folder, log)
        lasting = sum(is_lasting(record) for record in log.rows.values())
        return now.revised(created_at=before.created_at, sitting=before.sitting + 1, resumed_rows=lasting)

    def _speak(
        self,
        folder: RunFolder,
        manifest: RunManifest,
        on_progress: Callable[[Progress], None],
        stopping: Callable[[], bool],
    ) -> None:
        log = read_requests(folder.path)
        jobs = open_jobs(self.corpus, log)
        languages = {self.plan.language: self._effective_language()}
        writer = OutcomeWriter(folder, self.plan, languages, manifest.sitting, self.stream)
        tally = _Tally(len(self.corpus.rows), len(self.corpus.rows) - len(jobs), on_progress)
        results = drive(
            self.engine,
            jobs,
            lambda job: self.plan.request(job.row, job.attempt),
            lambda job: self.plan.problem(job.row),
            self.concurrency,
            stopping,
        )
        with JsonlWriter(folder.requests) as requests, JsonlWriter(folder.trace) as trace:
            for result in results:
                record = writer.record(result)
                trace.extend(writer.traces(result))
                requests.append(record)
                tally.add(record, result)
        log = read_requests(folder.path)
        status = RunStatus.INTERRUPTED if open_jobs(self.corpus, log) else RunStatus.COMPLETE
        write_record(folder.manifest, close_manifest(manifest, log, status, tally.wall_s))

    def _effective_language(self) -> str:
        """Only named voices have dialects, so one clip answers for all."""
        voice = self.plan.voice
        return self.engine.effective_language(
            self.plan.language, ReferenceVoice(Path()) if isinstance(voice, RowClip) else voice
        )

    def _describe(self) -> RunManifest:
        """The manifest of a run that starts now."""
        now, profile = utc_now(), self.engine.profile.resolved()
        rows = len(self.corpus.rows)
        return RunManifest(
            tool_version=ttsbench.__version__,
            code=host.code_revision(),
            status=RunStatus.RUNNING,
            created_at=now,
            started_at=now,
            ended_at=None,
            ended_at_missing=RUNNING,
            profile=profile,
            profile_sha256=canonical_sha256(profile),
            corpus=corpus_record(self.corpus),
            checkpoint=checkpoint_record(self.engine),
            engine=engine_record(self.engine.info()),
            settings=self._settings(),
            software=host.software(),
            hardware=host.hardware(),
            placement=host.placement(),
            counts=count_rows((), rows),
            sitting=0,
            resumed_rows=0,
            wall_s=None,
            wall_s_missing=RUNNING,
            audio_s=0.0,
            audio_s_per_wall_s=None,
            audio_s_per_wall_s_missing=RUNNING,
        )

    def _settings(self) -> RunSettings:
        plan = self.plan
        return RunSettings(
            voice=None if isinstance(plan.voice, RowClip) else voice_record(plan.voice),
            language=plan.language,
            text_layout=plan.text_layout.value,
            sampling=SamplingSettings.model_validate(dataclasses.asdict(plan.sampling)),
            seed=plan.seed,
            max_frames=plan.max_frames,
            concurrency=self.concurrency,
            tracing=True,
            stream=self.stream,
        )


class _Tally:
    """Counts results as they come and measures the sitting's wall time, first hand-over to last end."""

    def __init__(self, expected: int, done: int, on_progress: Callable[[Progress], None]) -> None:
        self.expected, self.done, self.charged, self.audio_s = expected, done, 0, 0.0
        self._on_progress = on_progress
        self._began_ns = time.monotonic_ns()
        self._first_ns: int | None = None
        self._last_ns = 0

    def add(self, record: RequestRecord, result: RowResult) -> None:
        self.done += 1
        self.charged += record.status is not RowStatus.OK
        if record.status is RowStatus.OK:
            self.audio_s += record.duration_s or 0.0
        if result.submitted_at_ns is not None:
            self._first_ns = min(self._first_ns or result.submitted_at_ns, result.submitted_at_ns)
            self._last_ns = max(self._last_ns, result.chunks[-1].emitted_at_ns)
        elapsed = (time.monotonic_ns() - self._began_ns) / 1e9
        self._on_progress(Progress(self.done, self.expected, self.charged, self.audio_s, elapsed))

    @property
    def wall_s(self) -> float | None:
        return None if self._first_ns is None else (self._last_ns - self._first_ns) / 1e9


def open_jobs(corpus: Corpus, log: RequestLog) -> list[Job]:
    """Rows still to run: without a record, or cancelled before (another attempt). A failed row is charged, not retried."""
    jobs = []
    for index, row in enumerate(corpus.rows):
        record = log.rows.get(index)
        if record is None:
            jobs.append(Job(index, row, 1))
        elif not is_lasting(record):
            jobs.append(Job(index, row, record.attempt + 1))
    return jobs


def is_lasting(record: RequestRecord) -> bool:
    """Whether a record stands when the run is resumed."""
    return record.status is not RowStatus.CANCELLED


def drop_unfinished(folder: RunFolder, log: RequestLog) -> None:
    """Remove what a killed run left of rows without a record: half-written files and trace lines."""
    for leftover in [*folder.path.glob(".*.tmp"), *folder.wav.glob(".*.tmp")]:
        leftover.unlink()
    if not folder.trace.exists():
        return
    recorded = {(record.row_index, record.attempt) for record in log.attempts}
    lines = read_jsonl(folder.trace, TraceRecord)
    kept = [line for line in lines.records if (line.row_index, line.attempt) in recorded]
    write_atomic(folder.trace, b"".join(line.model_dump_json().encode() + b"\n" for line in kept))


def close_manifest(manifest: RunManifest, log: RequestLog, status: RunStatus, wall_s: float | None) -> RunManifest:
    """The manifest at the end of a sitting: counts and audio come from the records on disk."""
    audio_s = sum(r.duration_s or 0.0 for r in log.rows.values() if r.status is RowStatus.OK)
    why = None if wall_s else "no row reached the engine"
    if manifest.resumed_rows:
        wall_s, why = None, "resumed: the earlier sitting's time is not comparable"
    elif status is not RunStatus.COMPLETE:
        wall_s, why = None, f"the run is {status.value}"
    return manifest.revised(
        status=status,
        ended_at=utc_now(),
        ended_at_missing=None,
        counts=count_rows(log.rows.values(), manifest.counts.expected),
        wall_s=wall_s or None,
        wall_s_missing=why,
        audio_s=audio_s,
        audio_s_per_wall_s=audio_s / wall_s if wall_s else None,
        audio_s_per_wall_s_missing=why,
    )


def count_rows(records: Iterable[RequestRecord], expected: int) -> RowCounts:
    by_status = {status.value: 0 for status in RowStatus}
    for record in records:
        by_status[record.status.value] += 1
    return RowCounts(expected=expected, **by_status)


def corpus_record(corpus: Corpus) -> CorpusRecord:
    selection = corpus.selection
    return CorpusRecord(
        name=corpus.name,
        path=str(corpus.path),
        sha256=corpus.sha256,
        locale=corpus.locale,
        format=order(corpus.fields),
        rows_in_list=selection.rows_in_list if selection else len(corpus.rows),
        rows_expected=len(corpus.rows),
        selection=_selection_words(corpus),
    )


def _selection_words(corpus: Corpus) -> str:
    selection = corpus.selection
    if selection is None:
        return "all"
    parts = [] if selection.ids is None else [f"ids {', '.join(selection.ids)}"]
    parts += [] if selection.shuffle_seed is None else [f"shuffled by seed {selection.shuffle_seed}"]
    parts += [] if selection.first is None else [f"the first {selection.first}"]
    return "; ".join(parts) or "all"


def checkpoint_record(engine: NativeEngine) -> CheckpointRecord:
    folder = engine.checkpoint.folder
    files = checkpoint_hashes(folder)
    return CheckpointRecord(name=folder.name, source=engine.info().model, files=files, sha256=combined_sha256(files))


def engine_record(info: EngineInfo) -> EngineRecord:
    return EngineRecord.model_validate(dataclasses.asdict(info) | {"default_text_layout": info.default_text_layout.value})


def _differences(name: str, old: object, new: object) -> list[tuple[str, object, object]]:
    """(dotted name, old, new) of every leaf that differs between two records or dicts."""
    if hasattr(old, "model_dump") and hasattr(new, "model_dump"):
        old, new = old.model_dump(), new.model_dump()
    if isinstance(old, dict) and isinstance(new, dict):
        keys = list(dict.fromkeys([*old, *new]))
        return [d for key in keys for d in _differences(f"{name}.{key}", old.get(key), new.get(key))]
    return [] if old == new or name in MAY_MOVE else [(name, old, new)]
