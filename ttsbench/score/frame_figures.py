"""What the audits of single requests sum up to: over the attempts of a row, and over the rows of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ttsbench.records import JsonLines, TraceRecord
from ttsbench.records.frames import (
    FrameCounts,
    FrameFault,
    FrameFigures,
    FrameFinding,
    FramesByPosition,
    FramesOutcome,
    FramesRow,
)
from ttsbench.score.source import RunSource
from ttsbench.trace import FrameAudit, upper_bound
from ttsbench.trace.audit import UNSAID

Lines = dict[tuple[int, int], list[TraceRecord]]
"""Trace lines in file order by row and attempt."""


def total_of(audits: Sequence[FrameAudit]) -> FrameCounts:
    """Counts of all attempts; what is unknown of one is unknown of all."""
    if len(audits) == 1:
        return audits[0].counts
    counts = [audit.counts for audit in audits]
    generated = _sum(count.frames_generated for count in counts)
    phantom = _sum(count.frames_phantom for count in counts)
    return FrameCounts(
        attempts=len(counts),
        emissions=sum(count.emissions for count in counts),
        frames_emitted=sum(count.frames_emitted for count in counts),
        frames_generated=generated,
        frames_generated_missing=UNSAID if generated is None else None,
        frames_missing=sum(count.frames_missing for count in counts),
        frames_repeated=sum(count.frames_repeated for count in counts),
        frames_phantom=phantom,
        frames_phantom_missing=UNSAID if phantom is None else None,
        out_of_order=sum(count.out_of_order for count in counts),
        gap_events=sum(count.gap_events for count in counts),
        replay_events=sum(count.replay_events for count in counts),
        terminals=sum(count.terminals for count in counts),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def figures_of(
    audited: Sequence[FramesRow], source: RunSource, lines: Lines, trace: JsonLines[TraceRecord]
) -> FrameFigures:
    counts = [row.counts for row in audited if row.counts is not None]
    affected = sum(row.outcome is FramesOutcome.AFFECTED for row in audited)
    findings = [finding for row in audited for finding in row.findings]
    recorded = {(record.row_index, record.attempt) for record in source.log.attempts}
    seconds = source.manifest.engine.hop_samples / source.manifest.engine.sample_rate_hz
    missing, repeated = (_by_position(findings, fault) for fault in (FrameFault.MISSING, FrameFault.REPEATED))
    lost, again = sum(count.frames_missing for count in counts), sum(count.frames_repeated for count in counts)
    return FrameFigures(
        trace_sha256=trace.sha256,
        trace_torn_bytes=trace.torn_bytes,
        emissions_without_record=sum(len(found) for key, found in lines.items() if key not in recorded),
        attempts=sum(count.attempts for count in counts),
        emissions=sum(count.emissions for count in counts),
        terminals=sum(count.terminals for count in counts),
        frames_emitted=sum(count.frames_emitted for count in counts),
        rows_affected=affected,
        affected_pct=100 * affected / len(audited),
        affected_upper_95_pct=100 * upper_bound(affected, len(audited)),
        rows_end_unchecked=sum(count.frames_generated is None for count in counts),
        frames_missing=lost,
        missing_s=lost * seconds,
        frames_repeated=again,
        repeated_s=again * seconds,
        frames_phantom=sum(count.frames_phantom or 0 for count in counts),
        out_of_order=sum(count.out_of_order for count in counts),
        gap_events=sum(count.gap_events for count in counts),
        replay_events=sum(count.replay_events for count in counts),
        missing_by_position=missing,
        repeated_by_position=repeated,
        findings_by_fault=_sorted(finding.fault for finding in findings),
        rows_by_fault=_sorted(fault for row in audited for fault in {finding.fault for finding in row.findings}),
    )


def _sorted(faults: Iterable[FrameFault]) -> dict[str, int]:
    return dict(sorted(Counter(fault.value for fault in faults).items()))


def _by_position(findings: Sequence[FrameFinding], fault: FrameFault) -> FramesByPosition:
    frames: Counter[str] = Counter()
    for finding in findings:
        if finding.fault is fault and finding.position:
            frames[finding.position] += finding.frames
    return FramesByPosition(first=frames["first"], steady=frames["steady"], tail=frames["tail"])
