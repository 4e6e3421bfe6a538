"""What `bench` measured, for people: a row per concurrency, then rounds that disagree with what one would expect."""

from __future__ import annotations

from ttsbench.records import BenchPooled, BenchRecord, RunStatus
from ttsbench.records.distribution import Distribution
from ttsbench.report.figures import figure, short
from ttsbench.report.section import Grid, Notes, Section

SPEED = ("concurrency", "throughput, audio-s/s", "RTF", "rounds", "audio, s", "wall, s", "bad rows")
TIMES = ("concurrency", "first audio, ms", "p50", "p95", "p99", "gap, ms", "p50", "p95", "p99")
PERCENTILES = ("p50", "p95", "p99")


def bench_section(record: BenchRecord) -> Section:
    """The counted rounds of every concurrency, pooled."""
    notes = Notes()
    grids = (
        Grid(SPEED, tuple(_speed(pooled, notes) for pooled in record.pooled)),
        Grid(TIMES, tuple(_times(pooled, notes) for pooled in record.pooled)),
    )
    notes.remark(
        "below a throughput: the slowest and the fastest round; first audio and gap: the mean, then percentiles"
    )
    notes.remark("untraced; closed loop; first audio is from hand-in to samples in the consumer's hands")
    for done in record.rounds:
        if not done.complete:
            notes.remark(f"C{done.concurrency} round {done.number} was cut short: not counted")
        elif done.peak < done.concurrency:
            notes.remark(f"C{done.concurrency} round {done.number}: rows in flight at once, at most: {done.peak}")
    cut = sum(done.rows_by_finish.get("length", 0) for done in record.rounds if done.counted)
    if cut:
        notes.remark(f"rows of counted rounds that ended at their frame limit: {cut}")
    return Section("bench", _ledger(record), grids, notes.lines)


def _ledger(record: BenchRecord) -> str:
    counted, engine = sum(done.counted for done in record.rounds), record.engine
    state = "" if record.status is RunStatus.COMPLETE else f", {record.status.value}"
    what = f"{engine.name} {engine.model}, {engine.device} {engine.dtype}, {engine.determinism}"
    rounds = f"{counted} of {len(record.rounds)} rounds count{state}"
    return f"{what}; {record.corpus.rows_expected} rows a round; {rounds}; profile {short(record.profile_sha256)}"


def _speed(pooled: BenchPooled, notes: Notes) -> tuple[str, ...]:
    rounds = " to ".join(notes.cell(pooled, name, figure) for name in ("slowest", "fastest"))
    return (
        str(pooled.concurrency),
        f"{notes.cell(pooled, 'audio_s_per_wall_s', figure)}\n{rounds}",
        notes.cell(pooled, "rtf", figure),
        str(pooled.rounds),
        figure(pooled.audio_s),
        figure(pooled.wall_s),
        str(pooled.rows_bad),
    )


def _times(pooled: BenchPooled, notes: Notes) -> tuple[str, ...]:
    cells = [str(pooled.concurrency)]
    for name in ("first_audio_s", "gap_s"):
        cells.append(notes.cell(pooled, name, lambda values: _ms(values.mean)))
        values: Distribution | None = getattr(pooled, name)
        percentiles = () if values is None else (getattr(values, level) for level in PERCENTILES)
        cells += [notes.cell(percentile, "value", _ms) for percentile in percentiles] or [""] * len(PERCENTILES)
    return tuple(cells)


def _ms(seconds: float) -> str:
    return figure(1000 * seconds)
