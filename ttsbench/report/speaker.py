"""The speaker section: how near the rows are to the voices that were asked for."""

from __future__ import annotations

from ttsbench.records.speaker import SimilarityStats, SpeakerSummary
from ttsbench.report.figures import share, short, similarity
from ttsbench.report.ledger import ledger_line
from ttsbench.report.section import Grid, Notes, Section

SIMILARITIES = {
    "similarity": "own reference",
    "head_similarity": "own reference, head of the row",
    "foreign_similarity": "nearest foreign reference",
    "consistency": "other rows of the voice",
}
COUNTS = {
    "references": "reference clips",
    "voices": "voices",
    "rows_without_reference": "rows without a reference",
    "rows_short": "rows with less than 1 s of speech",
    "rows_echo_suspected": "rows suspected to be the clip itself",
    "rows_foreign_above_own": "rows nearer to a foreign reference",
}


def speaker_section(summary: SpeakerSummary) -> Section:
    """Similarities are cosines x 100 of one encoder."""
    notes = Notes()
    ledger = ledger_line(summary.coverage, notes)
    notes.remark(f"scorer hash {short(summary.scorer_sha256)}; other encoders' figures do not compare")
    stats = tuple((label, *_stats(summary, name, notes)) for name, label in SIMILARITIES.items())
    counts = (
        *((label, notes.cell(summary, name)) for name, label in COUNTS.items()),
        ("rows nearest to their own voice", _nearest(summary, notes)),
    )
    header = ("similarity (cosine x 100)", "rows", "mean", "95 % interval", "p5")
    return Section("speaker similarity", ledger, (Grid(header, stats), Grid(("count", "value"), counts)), notes.lines)


def _stats(summary: SpeakerSummary, name: str, notes: Notes) -> tuple[str, ...]:
    stats = getattr(summary, name)
    if stats is None:
        return (notes.cell(summary, name),) * 4
    return (str(stats.rows), similarity(stats.mean_x100), _interval(stats, notes), similarity(stats.p5_x100))


def _interval(stats: SimilarityStats, notes: Notes) -> str:
    low, high = (notes.cell(stats, name, similarity) for name in ("mean_low_x100", "mean_high_x100"))
    return low if stats.mean_low_x100 is None else f"{low} to {high}"


def _nearest(summary: SpeakerSummary, notes: Notes) -> str:
    nearest, told = summary.rows_nearest_own_voice, summary.rows_told_by_voice
    return notes.cell(summary, "rows_told_by_voice") if nearest is None or told is None else share(nearest, told)
