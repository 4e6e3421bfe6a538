"""Throughput, latency and continuity of a run, from its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from ttsbench.records import Coverage, Heading, RunStatus, canonical_sha256
from ttsbench.records.timing import TimingRow, TimingSummary
from ttsbench.score.audio import SILENCE_DBFS
from ttsbench.score.source import RunSource
from ttsbench.score.timing import percentiles, silence
from ttsbench.score.timing.aggregate import check_limits, goodput, row_figures
from ttsbench.score.timing.chunks import CLOCK_TOLERANCE_S, chunk_log, lines_by_attempt
from ttsbench.score.timing.figures import figure
from ttsbench.score.timing.row import measured_row, missing_row, unmeasured_row
from ttsbench.score.timing.sitting import (
    Logs,
    Sitting,
    is_measured,
    pooled_phase,
    pooled_steady,
    sitting_speed,
    sittings_of,
)


def judge_timing(
    source: RunSource, limits: Mapping[str, float] | None = None
) -> tuple[tuple[TimingRow, ...], TimingSummary]:
    """Every expected row's times in row order, and their aggregates.

    `limits` defines goodput: the largest value allowed, by field of TimingRow (such as first_audio_s). Raises
    InvalidInput for a limit on anything else, RecordError for a trace that cannot be read.
    """
    check_limits(limits or {})
    lines, stream = lines_by_attempt(source), source.manifest.settings.stream
    logs = {i: chunk_log(record, stream, lines) for i, record in source.rows() if record and is_measured(record)}
    sittings = sittings_of(source)
    rows = _judge(source, sittings, logs)
    return rows, _summarise(source, sittings, logs, rows, limits)


def _judge(source: RunSource, sittings: Sequence[Sitting], logs: Logs) -> tuple[TimingRow, ...]:
    windows = {sitting.number: sitting.window for sitting in sittings}
    rows = []
    for index, record in source.rows():
        if record is None:
            rows.append(missing_row(index))
        elif index in logs:
            rows.append(measured_row(source, record, logs[index], windows[record.sitting]))
        else:
            rows.append(unmeasured_row(record))
    return tuple(rows)


def _summarise(
    source: RunSource,
    sittings: Sequence[Sitting],
    logs: Logs,
    rows: Sequence[TimingRow],
    limits: Mapping[str, float] | None,
) -> TimingSummary:
    measured = [row for row in rows if row.cause is None]
    at_full_load = [row for row in measured if row.in_steady_window]
    speeds = tuple(sitting_speed(sitting, logs) for sitting in sittings)
    phase, steady, rules = pooled_phase(sittings), pooled_steady(speeds), _rules(limits)
    coverage = Coverage.of((_heading(row), row.cause) for row in rows)
    wall_s = figure(phase.wall_s, phase.wall_s_missing)
    return TimingSummary(
        coverage=coverage,
        scorer=rules,
        scorer_sha256=canonical_sha256(rules),
        caveats=_caveats(source, coverage, len(sittings)),
        concurrency=source.manifest.settings.concurrency,
        concurrency_peak=max((speed.concurrency_peak for speed in speeds), default=0),
        phase=phase,
        steady=None if isinstance(steady, str) else steady,
        steady_missing=steady if isinstance(steady, str) else None,
        sittings=speeds,
        rows=row_figures(measured, logs),
        steady_rows=row_figures(at_full_load, logs) if at_full_load else None,
        steady_rows_missing=None if at_full_load else "no measured row was handed over in a steady window",
        goodput=goodput(measured, limits, wall_s) if limits else None,
        goodput_missing=None if limits else "no limits were given",
    )


def _heading(row: TimingRow) -> Heading:
    if row.cause is None:
        return Heading.MEASURED
    return Heading.MISSING if row.cause == "missing_record" else Heading.FAILED


def _caveats(source: RunSource, coverage: Coverage, sittings: int) -> tuple[str, ...]:
    manifest = source.manifest
    found = []
    if manifest.status is not RunStatus.COMPLETE:
        found.append(f"the run is {manifest.status}")
    if coverage.rows_measured < coverage.rows_expected:
        lacking = coverage.rows_expected - coverage.rows_measured
        found.append(f"{lacking} of {coverage.rows_expected} rows are not measured: the figures are of survivors")
    if manifest.sitting:
        found.append(
            f"made in {manifest.sitting + 1} sittings, {sittings} of which spoke: what a killed one lost is unknown"
        )
    if manifest.settings.tracing:
        found.append("tracing was on, which costs time")
    return tuple(found)


def _rules(limits: Mapping[str, float] | None) -> dict[str, JsonValue]:
    return {
        "rows": "status ok with known times",
        "wall": "first hand-over to last end of a row, per sitting, summed",
        "steady_window": "first moment at full concurrency (excluded) to last hand-over, on the event timeline",
        "steady_audio": "chunks that appeared in the window",
        "silence_dbfs": SILENCE_DBFS,
        "silence_frame_s": silence.FRAME_S,
        "clock_tolerance_s": CLOCK_TOLERANCE_S,
        "percentile": "linear between the two nearest values",
        "percentile_interval": "order statistics, binomial",
        "percentile_tail": percentiles.TAIL,
        "percentile_withheld_below": percentiles.WITHHELD_BELOW,
        "percentile_weak_below": percentiles.WEAK_BELOW,
        "continuity": "two or more chunks with audio; stalls re-based; deficit from the first chunk",
        "goodput_limits": dict(limits) if limits else None,
    }
