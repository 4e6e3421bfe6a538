"""The two audits: of the frame trace, which saw what the engine emitted, and of PCM, which can only infer."""

from __future__ import annotations

from ttsbench.records.frames import FrameFigures, FramesByPosition, FramesSummary
from ttsbench.records.pcm import PcmSummary
from ttsbench.report.figures import figure, percent, share, short
from ttsbench.report.ledger import ledger_line
from ttsbench.report.section import Grid, Notes, Section

FRAME_COUNTS = {
    "attempts": "attempts",
    "emissions": "emissions",
    "terminals": "terminals",
    "frames_emitted": "frames emitted",
    "frames_phantom": "frames phantom",
    "out_of_order": "emissions out of order",
    "gap_events": "gap events",
    "replay_events": "replay events",
    "rows_end_unchecked": "rows whose end is unchecked",
    "emissions_without_record": "emissions without a record",
}
EDGES = {
    "edge_median_db": ("sharpness at frame edges, median dB", figure),
    "inside_median_db": ("sharpness inside frames, median dB", figure),
    "edge_p99_db": ("sharpness at frame edges, p99 dB", figure),
    "inside_p99_db": ("sharpness inside frames, p99 dB", figure),
    "edge_sharper_probability": ("chance that an edge is the sharper one", figure),
}


def frames_section(summary: FramesSummary) -> Section:
    """The frame trace audit; no finding at all still leaves an upper bound."""
    notes = Notes()
    ledger = ledger_line(summary.coverage, notes)
    notes.remark(f"scorer hash {short(summary.scorer_sha256)}; concurrency {summary.concurrency}")
    if (figures := summary.figures) is None:
        rows: tuple[tuple[str, ...], ...] = (("rows affected", notes.cell(summary, "figures")),)
        faults: tuple[Grid, ...] = ()
    else:
        rows, faults = _frame_rows(figures, summary.coverage.rows_measured, notes), _faults(figures)
    return Section("frame trace", ledger, (Grid(("figure", "value"), rows), *faults), notes.lines)


def _frame_rows(figures: FrameFigures, audited: int, notes: Notes) -> tuple[tuple[str, ...], ...]:
    affected = f"{share(figures.rows_affected, audited)} ({percent(figures.affected_pct)})"
    missing, repeated = figures.missing_by_position, figures.repeated_by_position
    return (
        ("rows affected", affected),
        ("rows affected, 95 % upper bound", percent(figures.affected_upper_95_pct)),
        ("frames missing", _frames(figures.frames_missing, figures.missing_s, missing)),
        ("frames repeated", _frames(figures.frames_repeated, figures.repeated_s, repeated)),
        *((label, notes.cell(figures, name)) for name, label in FRAME_COUNTS.items()),
        ("torn bytes at the trace's end", str(figures.trace_torn_bytes)),
    )


def _frames(count: int, seconds: float, at: FramesByPosition) -> str:
    where = f", first/steady/tail {at.first}/{at.steady}/{at.tail}" if count else ""
    return f"{count} ({figure(seconds)} s{where})"


def _faults(figures: FrameFigures) -> tuple[Grid, ...]:
    rows = tuple(
        (fault, str(figures.rows_by_fault.get(fault, 0)), str(findings))
        for fault, findings in figures.findings_by_fault.items()
        if findings
    )
    return (Grid(("fault", "rows", "findings"), rows),) if rows else ()


def pcm_section(summary: PcmSummary) -> Section:
    """The PCM audit: kinds that were found, and by name those that were not."""
    notes = Notes()
    ledger = ledger_line(summary.coverage, notes)
    notes.remark(f"inferred from the audio alone; scorer hash {short(summary.scorer_sha256)}")
    return Section("PCM audit (inferred)", ledger, (*_kinds(summary, notes), _pcm_figures(summary, notes)), notes.lines)


def _kinds(summary: PcmSummary, notes: Notes) -> tuple[Grid, ...]:
    """Nothing was looked for where no row was measured, so nothing is said to be absent."""
    if not summary.coverage.rows_measured:
        return ()
    found = {kind: count for kind, count in summary.findings_by_kind.items() if count}
    if absent := [kind.value for kind in summary.findings_by_kind if kind not in found]:
        notes.remark(f"none found: {', '.join(absent)}")
    rows = tuple((kind.value, str(summary.rows_by_kind[kind]), str(count)) for kind, count in found.items())
    return (Grid(("finding", "rows", "findings"), rows),) if rows else ()


def _pcm_figures(summary: PcmSummary, notes: Notes) -> Grid:
    affected = notes.cell(summary, "rows_affected_pct", percent)
    rows = (
        ("rows affected", f"{share(summary.rows_affected, summary.coverage.rows_measured)} ({affected})"),
        ("rows longer than 30 s", str(summary.rows_over_30_s)),
        ("rows of broken frames", str(summary.rows_of_broken_frames)),
        ("bar for splices, log odds", figure(summary.splice_bar)),
        ("bar for clicks, log odds", figure(summary.click_bar)),
        ("click period, frames", notes.cell(summary, "click_period_frames")),
        *((label, notes.cell(summary.edges, name, show)) for name, (label, show) in EDGES.items()),
    )
    return Grid(("figure", "value"), rows)
