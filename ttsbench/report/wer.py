"""The WER section: charged rows included, and beside them what a scorer that forgets failures would print."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ttsbench.records import WerStats, WerSummary
from ttsbench.records.wer import BootstrapInterval, WerHeadline
from ttsbench.report.figures import percent, short
from ttsbench.report.ledger import wer_ledger_line
from ttsbench.report.section import MOST_ROWS, Grid, Notes, Section

FIGURES = {
    "corpus_pct": "corpus WER",
    "sentence_mean_pct": "sentence mean WER",
    "sentence_mean_capped_pct": "sentence mean, capped at 100 %",
    "sentence_median_pct": "sentence median",
    "sentence_p95_pct": "sentence p95",
    "sentence_max_pct": "worst sentence",
}
INTERVALS = {"corpus_pct": "corpus_interval", "sentence_mean_pct": "sentence_mean_interval"}
COUNTS = {
    "rows_charged": "rows charged",
    "rows_unscored": "rows unscored",
    "rows_cut_at_length": "rows cut at their frame limit",
    "rows_empty_transcript": "empty transcripts",
    "rows_trailing_deletions": "rows with trailing deletions",
    "words_trailing_deletions": "words deleted at the end",
}
NO_INTERVAL = "rows too few for an interval, or the figure itself is missing"
NO_PROMPT_WORDS = "no row has a prompt whose words are known"
Pick = Callable[[WerStats], str]


def wer_section(summary: WerSummary, stale: str | None, ids: Mapping[int, str]) -> Section:
    """One protocol; `stale` says why it is not of the records that lie there now, `ids` has the rows' utterance ids."""
    notes = Notes()
    if stale:
        notes.remark(f"STALE: {stale}; score again")
    if not summary.complete:
        notes.remark(f"INCOMPLETE: {'; '.join(summary.incomplete_because)}")
    ledger = wer_ledger_line(summary, notes)
    if failure := summary.first_asr_failure:
        notes.remark(f"the recogniser first broke on {failure.utterance_id}: {failure.error}; all rows heard anew")
    notes.remark(f"protocol hash {short(summary.protocol_sha256)}")
    rows = (
        _headline(summary.headline, notes),
        *(_figure(summary, name, notes) for name in FIGURES),
        _row(summary, "rows above 50 %", _above, notes),
        _row(summary, "rows", lambda stats: str(stats.rows), notes),
        _row(summary, "reference words", lambda stats: str(stats.reference_words), notes),
        _row(summary, "substitutions/deletions/insertions", _edits, notes),
        *((label, notes.cell(summary, name), "", "") for name, label in COUNTS.items()),
        ("rows leaking a prompt", _leaks(summary, ids, notes), "", ""),
    )
    header = ("figure", "all rows", "interval", "survivors only")
    return Section(f"WER, protocol {summary.protocol_id}", ledger, (Grid(header, rows),), notes.lines)


def _leaks(summary: WerSummary, ids: Mapping[int, str], notes: Notes) -> str:
    leaks = summary.prompt_leaks
    if leaks is None:
        return notes.missing(NO_PROMPT_WORDS)
    for leak in leaks[:MOST_ROWS]:
        whose = "its own prompt" if leak.own else f"the prompt of {_name(leak.prompt_row_index, ids)}"
        notes.remark(f"{_name(leak.row_index, ids)} begins with words of {whose}: {' '.join(leak.words)}")
    if (more := len(leaks) - MOST_ROWS) > 0:
        notes.remark(f"{more} more begin with words of a prompt: prompt_leaks in scores.json")
    return str(len(leaks))


def _name(row_index: int, ids: Mapping[int, str]) -> str:
    return ids.get(row_index, f"row {row_index}")


def headline_cell(headline: WerHeadline | None, notes: Notes) -> str:
    """The figure a protocol is named for."""
    return notes.missing(None) if headline is None else notes.cell(headline, "pct", percent)


def _headline(headline: WerHeadline | None, notes: Notes) -> tuple[str, ...]:
    if headline is None:
        return ("headline", headline_cell(None, notes), "", "")
    label = FIGURES.get(headline.figure, headline.figure)
    notes.remark(f"the headline is the {label} of the {headline.rows} rows that the protocol counts")
    interval = notes.missing(NO_INTERVAL) if headline.interval is None else _interval(headline.interval)
    return ("headline", headline_cell(headline, notes), interval, "")


def _figure(summary: WerSummary, name: str, notes: Notes) -> tuple[str, ...]:
    interval = _interval_cell(summary.all_rows, name, notes)
    return _row(summary, FIGURES[name], lambda stats: notes.cell(stats, name, percent), notes, interval)


def _row(summary: WerSummary, label: str, pick: Pick, notes: Notes, interval: str = "") -> tuple[str, ...]:
    of_all = notes.missing(summary.all_rows_missing) if summary.all_rows is None else pick(summary.all_rows)
    survivors = notes.missing(summary.survivors_missing) if summary.survivors is None else pick(summary.survivors)
    return (label, of_all, interval, survivors)


def _interval_cell(stats: WerStats | None, name: str, notes: Notes) -> str:
    if name not in INTERVALS or stats is None:
        return ""
    interval = getattr(stats, INTERVALS[name])
    return notes.missing(NO_INTERVAL) if interval is None else _interval(interval)


def _interval(interval: BootstrapInterval) -> str:
    return f"{interval.low_pct:.2f} to {interval.high_pct:.2f} ({interval.level_pct:g} %)"


def _above(stats: WerStats) -> str:
    return f"{percent(stats.share_above_50_pct)} ({stats.rows_above_50_pct})"


def _edits(stats: WerStats) -> str:
    return f"{stats.substitutions}/{stats.deletions}/{stats.insertions}"
