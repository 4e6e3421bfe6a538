"""The manifest of a run: described before the first row, closed after the last from the records on disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import ttsbench
from ttsbench.adapters.native import NativeEngine
from ttsbench.core import EngineInfo
from ttsbench.corpus import Corpus, order
from ttsbench.experiment import host
from ttsbench.experiment.outcome import voice_record
from ttsbench.experiment.rows import RowClip, RowPlan
from ttsbench.models.source import checkpoint_hashes
from ttsbench.records import (
    CheckpointRecord,
    CorpusRecord,
    EngineRecord,
    RequestLog,
    RequestRecord,
    RowCounts,
    RowStatus,
    RunManifest,
    RunSettings,
    RunStatus,
    SamplingSettings,
    canonical_sha256,
    combined_sha256,
    utc_now,
)

RUNNING = "still running"


def describe_run(engine: NativeEngine, corpus: Corpus, plan: RowPlan, concurrency: int, stream: bool) -> RunManifest:
    """The manifest of a run that starts now."""
    now, profile = utc_now(), engine.profile.resolved()
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
        corpus=corpus_record(corpus),
        checkpoint=checkpoint_record(engine),
        engine=engine_record(engine.info()),
        settings=settings_record(plan, concurrency, stream),
        software=host.software(),
        hardware=host.hardware(),
        placement=host.placement(),
        counts=count_rows((), len(corpus.rows)),
        sitting=0,
        resumed_rows=0,
        wall_s=None,
        wall_s_missing=RUNNING,
        audio_s=0.0,
        audio_s_per_wall_s=None,
        audio_s_per_wall_s_missing=RUNNING,
    )


def close_manifest(manifest: RunManifest, log: RequestLog, status: RunStatus) -> RunManifest:
    """The manifest at the end of a sitting; all its numbers come from the records."""
    wall_s = sitting_wall_s(log, manifest.sitting)
    audio_s = sum(r.duration_s or 0.0 for r in log.rows.values() if r.status is RowStatus.OK)
    why = None if wall_s else "no row reached the engine"
    if manifest.resumed_rows:
        why = "resumed: an earlier sitting's time is not known"
    elif status is not RunStatus.COMPLETE:
        why = f"the run is {status.value}"
    known_wall_s = wall_s if why is None else None
    return manifest.revised(
        status=status,
        ended_at=utc_now(),
        ended_at_missing=None,
        counts=count_rows(log.rows.values(), manifest.counts.expected),
        wall_s=known_wall_s,
        wall_s_missing=why,
        audio_s=audio_s,
        audio_s_per_wall_s=audio_s / known_wall_s if known_wall_s else None,
        audio_s_per_wall_s_missing=why,
    )


def sitting_wall_s(log: RequestLog, sitting: int) -> float | None:
    """Seconds from a sitting's first hand-over to the last end of a row; None when no row reached the engine in it."""
    records = [record for record in log.attempts if record.sitting == sitting]
    submitted = [record.submitted_s for record in records if record.submitted_s is not None]
    finished = [record.finished_s for record in records if record.finished_s is not None]
    return max(finished) - min(submitted) if submitted and finished else None


def count_rows(records: Iterable[RequestRecord], expected: int) -> RowCounts:
    """How many rows ended in which way."""
    by_status = {status.value: 0 for status in RowStatus}
    for record in records:
        by_status[record.status.value] += 1
    return RowCounts(expected=expected, **by_status)


def settings_record(plan: RowPlan, concurrency: int, stream: bool) -> RunSettings:
    return RunSettings(
        voice=None if isinstance(plan.voice, RowClip) else voice_record(plan.voice),
        language=plan.language,
        text_layout=plan.text_layout.value,
        sampling=SamplingSettings.model_validate(dataclasses.asdict(plan.sampling)),
        seed=plan.seed,
        max_frames=plan.max_frames,
        concurrency=concurrency,
        tracing=True,
        stream=stream,
    )


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
    fields = dataclasses.asdict(info)
    return EngineRecord.model_validate(fields | {"default_text_layout": info.default_text_layout.value})
