"""The frame trace audit of a run: each row's emissions against what its record and its engine say.

All recorded attempts of a row are audited, cancelled ones too. A row that cannot be audited has the cause, and is no
proof of anything: a run without a trace has no figures, rather than figures of zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from ttsbench.records import Coverage, Heading, RequestRecord, RunManifest, TraceRecord, canonical_sha256
from ttsbench.records.frames import FrameFault, FramesOutcome, FramesRow, FramesSummary
from ttsbench.score.frame_figures import Lines, figures_of, total_of
from ttsbench.score.source import RunSource
from ttsbench.trace import Emission, Request, audit_request

PINNED: dict[str, JsonValue] = {
    "rules": "absolute-frames-1",
    "faults": [fault.value for fault in FrameFault],
    "upper_bound": "Clopper-Pearson, one-sided, 95 %",
}


@dataclass(frozen=True)
class _NotAudited:
    """Why rows cannot be audited."""

    cause: str
    detail: str


MISSING_RECORD = _NotAudited("missing_record", "the row has no record")
NEVER_SUBMITTED = _NotAudited("never_submitted", "the row never reached the engine")
NOT_TRACED = _NotAudited("not_traced", "the run was made without tracing")
TRACE_MISSING = _NotAudited("trace_missing", "the run was traced, and trace.jsonl is not there")


def judge_frames(source: RunSource) -> tuple[tuple[FramesRow, ...], FramesSummary]:
    """Audit every expected row, in row order. Raises RecordError for a trace that cannot be read."""
    lines: Lines = defaultdict(list)
    for line in source.trace.records if source.trace else ():
        lines[line.row_index, line.attempt].append(line)
    attempts: dict[int, list[RequestRecord]] = defaultdict(list)
    for record in source.log.attempts:
        attempts[record.row_index].append(record)
    reason = _why_no_row_can_be(source)
    rows = tuple(
        _row(latest, attempts[index], lines, source.manifest, reason) if latest else _not_audited(index, MISSING_RECORD)
        for index, latest in source.rows()
    )
    return rows, _summarise(rows, source, lines, reason)


def _why_no_row_can_be(source: RunSource) -> _NotAudited | None:
    if source.trace is None:
        return TRACE_MISSING if source.manifest.settings.tracing else NOT_TRACED
    if not source.manifest.engine.reports_frames:
        return _NotAudited("frames_not_reported", "the engine does not report frames")
    return None


def _row(
    latest: RequestRecord,
    attempts: Sequence[RequestRecord],
    lines: Lines,
    manifest: RunManifest,
    reason: _NotAudited | None,
) -> FramesRow:
    """One recorded row."""
    own = [line for record in attempts for line in lines.get((record.row_index, record.attempt), ())]
    reason = reason or _why_not_this_row(latest, own)
    if reason is not None:
        return _not_audited(latest.row_index, reason, latest)
    audits = [
        audit_request(_emissions(lines.get((record.row_index, record.attempt), ())), _request(record, manifest))
        for record in attempts
    ]
    findings = tuple(finding for audit in audits for finding in audit.findings)
    return FramesRow(
        row_index=latest.row_index,
        utterance_id=latest.utterance_id,
        status=latest.status,
        outcome=FramesOutcome.AFFECTED if findings else FramesOutcome.CLEAN,
        cause=None,
        cause_detail=None,
        counts=total_of(audits),
        findings=findings,
    )


def _why_not_this_row(latest: RequestRecord, own: Sequence[TraceRecord]) -> _NotAudited | None:
    """A row that was submitted and has no line is audited all the same: its frames and its terminal are missing."""
    if not own and latest.submitted_s is None:
        return NEVER_SUBMITTED
    blank = next((line for line in own if line.start_frame is None or line.end_frame is None), None)
    if blank is None:
        return None
    why = blank.start_frame_missing or blank.end_frame_missing
    return _NotAudited("frames_not_reported", f"emission {blank.index} has no frames: {why}")


def _not_audited(row_index: int, reason: _NotAudited, record: RequestRecord | None = None) -> FramesRow:
    no_record = None if record else MISSING_RECORD.detail
    return FramesRow(
        row_index=row_index,
        utterance_id=record.utterance_id if record else None,
        utterance_id_missing=no_record,
        status=record.status if record else None,
        status_missing=no_record,
        outcome=FramesOutcome.NOT_AUDITED,
        cause=reason.cause,
        cause_detail=reason.detail,
        counts=None,
        counts_missing=reason.detail,
        findings=(),
    )


def _emissions(lines: Iterable[TraceRecord]) -> list[Emission]:
    return [
        Emission(
            line.utterance_id,
            line.index,
            line.emitted_at_ns,
            line.start_frame,
            line.end_frame,
            line.samples,
            line.sample_rate_hz,
            line.terminal,
            line.finish_reason,
        )
        for line in lines
        if line.start_frame is not None and line.end_frame is not None  # all have: `_why_not_this_row`
    ]


def _request(record: RequestRecord, manifest: RunManifest) -> Request:
    return Request(
        utterance_id=record.utterance_id,
        attempt=record.attempt,
        frames_generated=0 if record.submitted_s is None else record.frames_generated,
        frame_limit=record.max_frames if record.frame_limit is None else record.frame_limit,
        finish_reason=record.finish_reason,
        samples=record.samples,
        recorded_rate_hz=record.sample_rate_hz,
        hop_samples=manifest.engine.hop_samples,
        sample_rate_hz=manifest.engine.sample_rate_hz,
    )


def _summarise(rows: Sequence[FramesRow], source: RunSource, lines: Lines, reason: _NotAudited | None) -> FramesSummary:
    engine, audited = source.manifest.engine, [row for row in rows if row.counts is not None]
    figures = figures_of(audited, source, lines, source.trace) if audited and source.trace else None
    return FramesSummary(
        coverage=Coverage.of((_heading(row), row.cause) for row in rows),
        scorer=PINNED,
        scorer_sha256=canonical_sha256(PINNED),
        concurrency=source.manifest.settings.concurrency,
        hop_samples=engine.hop_samples,
        sample_rate_hz=engine.sample_rate_hz,
        figures=figures,
        figures_missing=None if figures else reason.detail if reason else "no row could be audited",
    )


def _heading(row: FramesRow) -> Heading:
    if row.cause is None:
        return Heading.MEASURED
    return {MISSING_RECORD.cause: Heading.MISSING, TRACE_MISSING.cause: Heading.UNSCORED}.get(row.cause, Heading.FAILED)
