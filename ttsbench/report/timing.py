"""The timing section: speed of the system, what single rows felt, and whether playback would have paused."""

from __future__ import annotations

from collections.abc import Iterable

from ttsbench.records.distribution import Distribution, Percentile
from ttsbench.records.timing import Continuity, Goodput, RowFigures, TimingSummary, WithinLimit
from ttsbench.report.figures import figure, percent, short
from ttsbench.report.ledger import ledger_line
from ttsbench.report.section import Grid, Notes, Section

SPEED = {
    "audio_s_per_wall_s": "throughput, audio-s/s",
    "rtf_system": "RTF (system)",
    "rtfx_system": "RTFx (system)",
    "requests_per_wall_s": "requests/s",
    "rows": "rows",
    "audio_s": "audio, s",
    "wall_s": "wall, s",
    "batch_wall_s": "wall to the last WAV, s",
}
STEADY = {"audio_s_per_wall_s": "audio_s_per_wall_s", "audio_s": "audio_s", "wall_s": "window_s"}
"""Fields of the steady window by the field of the whole phase that they stand beside."""
MS, S = 1000.0, 1.0
LATENCY = {
    "first_audio_s": ("first audio, ms", MS),
    "first_audible_s": ("first audible, ms", MS),
    "first_heard_s": ("first heard, ms", MS),
    "leading_silence_s": ("leading silence, ms", MS),
    "e2e_s": ("E2E, s", S),
    "gap_s": ("gaps, ms", MS),
    "chunk_audio_s": ("chunk audio, ms", MS),
    "underrun_cumulative_s": ("U_cum, ms", MS),
    "underrun_largest_s": ("U_max, ms", MS),
}
STEADY_LATENCY = ("first_audio_s", "first_audible_s", "e2e_s", "gap_s", "underrun_cumulative_s")
"""What is shown of the rows of the steady window: the report must stay readable, and scores.json has the rest."""
PERCENTILES = ("p50", "p90", "p95", "p99")
LIMITS = {
    "c50": "C50, largest stall",
    "c100": "C100, largest stall",
    "c200": "C200, largest stall",
    "cumulative_100": "cumulative deficit",
}


def timing_section(summary: TimingSummary) -> Section:
    """Whole phase and steady window; percentiles with their intervals, or withheld."""
    notes = Notes()
    ledger = ledger_line(summary.coverage, notes)
    for caveat in summary.caveats:
        notes.remark(f"CAVEAT: {caveat}")
    concurrency = f"concurrency {summary.concurrency}, peak {summary.concurrency_peak}"
    pooled = f"sittings pooled: {len(summary.sittings)}"
    notes.remark(f"{concurrency}; {pooled}; scorer hash {short(summary.scorer_sha256)}")
    notes.remark("in parentheses below a percentile: its 95 % interval; weak: under five values expected beyond it")
    grids = [_speed(summary, notes), _latency("all rows", summary.rows, LATENCY, notes)]
    if summary.steady_rows is not None:
        grids.append(_latency("steady window", summary.steady_rows, STEADY_LATENCY, notes))
    grids.append(_playback(summary.rows.continuity, summary.goodput, notes))
    return Section("timing", ledger, tuple(grids), notes.lines)


def _speed(summary: TimingSummary, notes: Notes) -> Grid:
    rows = tuple(
        (label, notes.cell(summary.phase, name, _number), _steady(summary, name, notes))
        for name, label in SPEED.items()
    )
    return Grid(("speed", "whole phase", "steady window"), rows)


def _steady(summary: TimingSummary, name: str, notes: Notes) -> str:
    if name not in STEADY:
        return ""
    if summary.steady is None:
        return notes.cell(summary, "steady")
    return notes.cell(summary.steady, STEADY[name], _number)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else figure(value, 4)


def _latency(which: str, rows: RowFigures, names: Iterable[str], notes: Notes) -> Grid:
    table = tuple(_distribution(rows, name, notes) for name in names)
    return Grid((which, "mean", *PERCENTILES), table)


def _distribution(rows: RowFigures, name: str, notes: Notes) -> tuple[str, ...]:
    (label, scale), values = LATENCY[name], getattr(rows, name)
    if values is None:
        return (label, *(notes.cell(rows, name),) * (1 + len(PERCENTILES)))
    for reason, count in values.rows_without_by_reason.items():
        notes.remark(f"{label.split(',')[0]}: {count} of {rows.rows} rows without ({reason})")
    return (f"{label}\n(n = {values.values})", figure(values.mean * scale), *_percentiles(values, scale, notes))


def _percentiles(values: Distribution, scale: float, notes: Notes) -> tuple[str, ...]:
    return tuple(_percentile(getattr(values, level), values.values, scale, notes) for level in PERCENTILES)


def _percentile(percentile: Percentile, values: int, scale: float, notes: Notes) -> str:
    if percentile.value is None:
        return f"withheld\n(n = {values})"
    low, high = (notes.cell(percentile, end, lambda value: figure(value * scale)) for end in ("low", "high"))
    interval = low if percentile.low is None and percentile.high is None else f"({low}–{high})"
    return f"{figure(percentile.value * scale)}{' weak' * percentile.weak}\n{interval}"


def _playback(continuity: Continuity, goodput: Goodput | None, notes: Notes) -> Grid:
    limits = tuple(_within(label, getattr(continuity, name), notes) for name, label in LIMITS.items())
    undefined = continuity.c50.rows == 0
    counts = tuple(
        (label, notes.cell(continuity.c50, "share_pct") if undefined else str(count), "", "")
        for label, count in (
            ("rows stalled", continuity.rows_stalled),
            ("stalls", continuity.stalls),
            ("late chunks", continuity.late_chunks),
        )
    )
    good = () if goodput is None else (_goodput(goodput, notes),)
    return Grid(("playback", "rows", "of", "share"), (*limits, *counts, *good))


def _within(label: str, within: WithinLimit, notes: Notes) -> tuple[str, ...]:
    share = notes.cell(within, "share_pct", percent)
    rows_within = share if within.share_pct is None else str(within.rows_within)
    return (f"{label} at most {within.limit_ms} ms", rows_within, str(within.rows), share)


def _goodput(goodput: Goodput, notes: Notes) -> tuple[str, ...]:
    limits = ", ".join(f"{name} at most {limit:g}" for name, limit in goodput.limits.items())
    notes.remark(f"goodput counts rows with {limits}; {goodput.rows_undecided} rows undecided")
    rate = notes.cell(goodput, "rows_per_wall_s", lambda value: f"{figure(value)} rows/s")
    return ("goodput", str(goodput.rows_good), "", rate)
