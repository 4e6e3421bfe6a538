"""One run under several protocols: figures side by side, how far each is from the first, and rows that change sides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ttsbench.records import ScoreSummary, read_wer
from ttsbench.report.figures import percent
from ttsbench.report.section import MOST_ROWS, Grid, Notes, Section
from ttsbench.report.wer import headline_cell
from ttsbench.score.deltas import Flip, ProtocolDeltas, protocol_deltas
from ttsbench.score.run import WerScore

UNKNOWN = "no row could be scored, or the text of a row is unknown"
UNSCORED = "the recogniser broke on the row"


def deltas_section(run_dir: Path, summary: ScoreSummary, stale: Mapping[str, str]) -> Section | None:
    """None where fewer than two protocols judged what lies in the folder now."""
    names = [name for name in summary.wer if name not in stale]
    if len(names) < 2:
        return None
    deltas = protocol_deltas({name: WerScore(read_wer(run_dir, name).records, summary.wer[name]) for name in names})
    notes = Notes()
    if stale:
        notes.remark(f"without stale protocols: {', '.join(stale)}")
    notes.remark("differences are percentage points to P1, of the figure to their left")
    labels = {name: f"P{number}" for number, name in enumerate(names, start=1)}
    grids = [_protocols(deltas, labels, summary, notes)]
    if deltas.flips:
        grids.append(_flips(deltas.flips, labels, notes))
    ledger = f"{len(deltas.flips)} of {summary.wer[names[0]].rows_expected} rows change their verdict"
    return Section("WER by protocol, same audio", ledger, tuple(grids), notes.lines)


def _protocols(deltas: ProtocolDeltas, labels: Mapping[str, str], summary: ScoreSummary, notes: Notes) -> Grid:
    first = next(iter(labels))
    rows = tuple(
        (
            label,
            name,
            headline_cell(summary.wer[name].headline, notes),
            *_figure_and_delta(deltas.sentence_mean_pct, name, first, notes),
            *_figure_and_delta(deltas.corpus_pct, name, first, notes),
        )
        for name, label in labels.items()
    )
    return Grid(("", "protocol", "headline", "sentence mean", "to P1", "corpus", "to P1"), rows)


def _figure_and_delta(figures: Mapping[str, float | None], name: str, first: str, notes: Notes) -> tuple[str, str]:
    value, base = figures[name], figures[first]
    if value is None or base is None:
        return (notes.missing(UNKNOWN) if value is None else percent(value), notes.missing(UNKNOWN))
    return (percent(value), "" if name == first else f"{value - base:+.2f}")


def _flips(flips: tuple[Flip, ...], labels: Mapping[str, str], notes: Notes) -> Grid:
    notes.remark("rows that are perfect under one protocol only, or above 50 % under one only: sentence WER in percent")
    if len(flips) > MOST_ROWS:
        notes.remark(f"the first {MOST_ROWS} of {len(flips)} rows that change their verdict are listed")
    rows = tuple(
        (
            str(flip.row_index),
            *(_sentence(flip.wer_pct[name], notes) for name in labels),
            _changes(flip),
            flip.utterance_id or "",
        )
        for flip in flips[:MOST_ROWS]
    )
    return Grid(("row", *labels.values(), "changes", "id"), rows)


def _changes(flip: Flip) -> str:
    changes = {"perfect": flip.perfect, "> 50 %": flip.above_50}
    return "both" if all(changes.values()) else next(what for what, changed in changes.items() if changed)


def _sentence(value: float | None, notes: Notes) -> str:
    return notes.missing(UNSCORED) if value is None else f"{value:.2f}"
