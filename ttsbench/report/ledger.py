"""The failure ledger: every expected row under exactly one heading, beside every figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ttsbench.records import (
    Coverage,
    RequestLog,
    RowStatus,
    RunManifest,
    RunStatus,
    ScoreSummary,
    WerSummary,
)
from ttsbench.report.section import Grid, Notes, Section

SECTIONS = ("speaker", "frames", "pcm", "timing")
HEADINGS = ("expected", "measured", "failed", "missing", "unscored")
NOT_SCORED = "not scored"


def ledger_line(coverage: Coverage, notes: Notes) -> str:
    """The rows of one scorer as a sum; what lies behind it is remarked."""
    _remark_causes(notes, "failed", coverage.failed_by_cause)
    _remark_causes(notes, "unscored", coverage.unscored_by_cause)
    if coverage.rows_missing:
        notes.remark(f"missing: {coverage.rows_missing} rows without a record")
    if not coverage.complete:
        notes.remark("INCOMPLETE: rows are missing or unscored")
    ended = f"{coverage.rows_measured} ok + {coverage.rows_failed} failed"
    not_ended = f"{coverage.rows_missing} missing + {coverage.rows_unscored} unscored"
    return f"{coverage.rows_expected} rows expected = {ended} + {not_ended}"


def wer_ledger_line(summary: WerSummary, notes: Notes) -> str:
    """Likewise; scores from before coverage was kept have their own headings."""
    if summary.coverage is not None:
        return ledger_line(summary.coverage, notes)
    _remark_causes(notes, "charged", summary.charged_by_cause)
    _remark_causes(notes, "unscored", summary.unscored_by_cause)
    counts = f"{summary.rows_scored} scored + {summary.rows_charged} charged + {summary.rows_unscored} unscored"
    return f"{summary.rows_expected} rows expected = {counts}"


def ledger_section(summary: ScoreSummary, manifest: RunManifest, log: RequestLog) -> Section:
    """All scorers' ledgers below each other, and the run's own."""
    notes = Notes()
    ledger = _run_line(manifest, log, notes)
    rows = [(f"WER {name}", *_cells(wer.coverage, notes, None)) for name, wer in summary.wer.items()]
    for name in SECTIONS:
        section = getattr(summary, name)
        coverage = None if section is None else section.coverage
        rows.append((name, *_cells(coverage, notes, NOT_SCORED)))
    return Section("rows", ledger, (Grid(("scorer", *_shown(HEADINGS)), tuple(rows)),), notes.lines)


def _shown(headings: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("ok" if heading == "measured" else heading for heading in headings)


def _cells(coverage: Coverage | None, notes: Notes, reason: str | None) -> tuple[str, ...]:
    if coverage is None:
        return (notes.missing(reason),) * len(HEADINGS)
    return tuple(str(getattr(coverage, f"rows_{heading}")) for heading in HEADINGS)


def _run_line(manifest: RunManifest, log: RequestLog, notes: Notes) -> str:
    """The run's rows by their records. run.json is compared, but for a run that never ended: it has not counted yet."""
    recorded = Counter(record.status for record in log.rows.values())
    told = {status: getattr(manifest.counts, status.value) for status in RowStatus}
    if manifest.status is not RunStatus.RUNNING and any(recorded[status] != told[status] for status in RowStatus):
        notes.remark(f"requests.jsonl has changed since the run ended: run.json counts {_ended(told)}")
    if log.torn_bytes:
        notes.remark(f"requests.jsonl ends in {log.torn_bytes} torn bytes, which are no record")
    expected = manifest.counts.expected
    without = expected - recorded.total()
    return f"run {manifest.status}: {expected} rows expected = {_ended(recorded)} + {without} without a record"


def _ended(rows: Mapping[RowStatus, int]) -> str:
    return " + ".join(f"{rows[status]} {status}" for status in RowStatus)


def _remark_causes(notes: Notes, heading: str, by_cause: Mapping[str, int]) -> None:
    if by_cause:
        notes.remark(f"{heading}: {', '.join(f'{count} {cause}' for cause, count in by_cause.items())}")
