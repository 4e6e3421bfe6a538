"""Figures over a set of measured rows: distributions, continuity rates, goodput."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ttsbench.core import InvalidInput, Problem
from ttsbench.records.distribution import Distribution
from ttsbench.records.timing import Continuity, Goodput, RowFigures, TimingRow, WithinLimit
from ttsbench.score.timing.continuity import ChunkLog
from ttsbench.score.timing.figures import Figure, as_fields, figure, ratio
from ttsbench.score.timing.percentiles import distribution
from ttsbench.score.timing.row import ONE_CHUNK
from ttsbench.score.timing.sitting import NO_AUDIO, NO_WALL, Logs

PER_ROW = (
    "e2e_s",
    "rtf_request",
    "rtfx_request",
    "first_audio_s",
    "leading_silence_s",
    "first_audible_s",
    "first_heard_s",
    "underrun_cumulative_s",
    "underrun_largest_s",
)
LIMITABLE = (*(name for name in PER_ROW if name != "rtfx_request"), "gap_largest_s")
"""Figures of which less is better."""
WITHIN_ROWS = "chunks of one row are not independent"
NO_CONTINUITY = "no row's continuity is defined"


def row_figures(rows: Sequence[TimingRow], logs: Logs) -> RowFigures:
    """Latency and continuity over measured rows."""
    values = {name: [row_figure(row, name) for row in rows] for name in PER_ROW}
    found = {name: _distribution(of_rows) for name, of_rows in values.items()}
    own = [logs[row.row_index] for row in rows]
    found["gap_s"] = _pooled(own, lambda log: log.gaps_s)
    found["chunk_audio_s"] = _pooled(own, lambda log: log.durations_s)
    fields: dict[str, Distribution | str | None] = {}
    for name, made in found.items():
        reason = made if isinstance(made, str) else None
        fields |= {name: None if reason else made, f"{name}_missing": reason}
    return RowFigures.model_validate({"rows": len(rows), "continuity": _continuity(rows)} | fields)


def row_figure(row: TimingRow, name: str) -> Figure:
    """A row's nullable field as a figure."""
    return figure(getattr(row, name), getattr(row, f"{name}_missing"))


def _distribution(values: Sequence[Figure]) -> Distribution | str:
    known = [value for value in values if not isinstance(value, str)]
    reasons = Counter(value for value in values if isinstance(value, str))
    return distribution(known, reasons) if known else _most_common(reasons)


def _pooled(logs: Sequence[ChunkLog | str], values_of: Callable[[ChunkLog], list[float]]) -> Distribution | str:
    """One distribution of every chunk's value, over all rows."""
    per_row = [log if isinstance(log, str) else values_of(log) or ONE_CHUNK for log in logs]
    reasons = Counter(values for values in per_row if isinstance(values, str))
    known = [value for values in per_row if not isinstance(values, str) for value in values]
    return distribution(known, reasons, dependent=WITHIN_ROWS) if known else _most_common(reasons)


def _most_common(reasons: Counter[str]) -> str:
    """The reason of the most rows; ties go by the alphabet."""
    return min(reasons, key=lambda reason: (-reasons[reason], reason), default=NO_AUDIO)


def _continuity(rows: Sequence[TimingRow]) -> Continuity:
    largest = [row.underrun_largest_s for row in rows if row.underrun_largest_s is not None]
    cumulative = [row.underrun_cumulative_s for row in rows if row.underrun_cumulative_s is not None]
    return Continuity(
        rows_stalled=sum(bool(row.stalls) for row in rows),
        stalls=sum(row.stalls or 0 for row in rows),
        late_chunks=sum(row.late_chunks or 0 for row in rows),
        c50=_within(largest, 50),
        c100=_within(largest, 100),
        c200=_within(largest, 200),
        cumulative_100=_within(cumulative, 100),
    )


def _within(underruns_s: Sequence[float], limit_ms: int) -> WithinLimit:
    within = sum(underrun_s <= limit_ms / 1000 for underrun_s in underruns_s)
    share = {"share_pct": ratio(100 * within, len(underruns_s), NO_CONTINUITY)}
    counts = {"limit_ms": limit_ms, "rows": len(underruns_s), "rows_within": within}
    return WithinLimit.model_validate(counts | as_fields(share))


def check_limits(limits: Mapping[str, float]) -> None:
    """Raises InvalidInput for a limit on something that is no figure of a row, or that no row could keep."""
    unknown = [
        Problem("goodput limit", f"one of {', '.join(LIMITABLE)}", name) for name in limits if name not in LIMITABLE
    ]
    unusable = [Problem(f"goodput limit {n}", "0 or more", str(v)) for n, v in limits.items() if not v >= 0]
    if problems := [*unknown, *unusable]:
        raise InvalidInput(problems)


def goodput(measured: Sequence[TimingRow], limits: Mapping[str, float], wall_s: Figure) -> Goodput:
    """Rows that keep every limit. A row that lacks a limited figure is neither good nor bad, so there is no rate."""
    verdicts = Counter(_keeps(row, limits) for row in measured)
    undecided = verdicts[None]
    why = f"{undecided} rows lack a limited figure"
    rate = why if undecided else ratio(verdicts[True], wall_s, NO_WALL)
    counts = {"limits": dict(limits), "rows_good": verdicts[True], "rows_undecided": undecided}
    return Goodput.model_validate(counts | as_fields({"rows_per_wall_s": rate}))


def _keeps(row: TimingRow, limits: Mapping[str, float]) -> bool | None:
    values = {name: row_figure(row, name) for name in limits}
    if any(value > limits[name] for name, value in values.items() if not isinstance(value, str)):
        return False
    return None if any(isinstance(value, str) for value in values.values()) else True
