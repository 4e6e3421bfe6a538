"""One set of WAVs under several protocols: how the figure moves with the rules, and which rows change their verdict.

The speech is the same in every column, so whatever differs is the protocol's doing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ttsbench.records import WerRecord
from ttsbench.records.wer import WerHeadline
from ttsbench.score.run import WerScore

ABOVE_PCT = 50.0


@dataclass(frozen=True)
class Flip:
    """A row that two protocols judge differently."""

    row_index: int
    utterance_id: str | None
    wer_pct: Mapping[str, float | None]
    """Sentence WER by protocol; None where the recogniser broke."""
    perfect: bool
    """Without an error under one protocol, wrong under another."""
    above_50: bool
    """Above 50 % under one protocol, not under another."""


@dataclass(frozen=True)
class ProtocolDeltas:
    """What the choice of protocol does to one run."""

    headlines: Mapping[str, WerHeadline]
    """The figure each protocol is named for, by protocol."""
    sentence_mean_pct: Mapping[str, float | None]
    """The same aggregate for all, failures charged: None where no row could be scored."""
    corpus_pct: Mapping[str, float | None]
    """Likewise; None also where the text of a row is unknown."""
    flips: tuple[Flip, ...]
    """In row order."""


def protocol_deltas(scores: Mapping[str, WerScore]) -> ProtocolDeltas:
    """Compare what `score_wer` returned for one run. Raises ValueError for scores of different rows."""
    columns = {protocol_id: score.rows for protocol_id, score in scores.items()}
    if len({len(rows) for rows in columns.values()}) > 1:
        raise ValueError("the scores are not of the same run")
    per_row = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    stats = {protocol_id: score.summary.all_rows for protocol_id, score in scores.items()}
    headlines = {protocol_id: score.summary.headline for protocol_id, score in scores.items()}
    return ProtocolDeltas(
        headlines={protocol_id: headline for protocol_id, headline in headlines.items() if headline is not None},
        sentence_mean_pct={name: None if s is None else s.sentence_mean_pct for name, s in stats.items()},
        corpus_pct={name: None if s is None else s.corpus_pct for name, s in stats.items()},
        flips=tuple(flip for row in per_row if (flip := _flip(row)) is not None),
    )


def _flip(row: Mapping[str, WerRecord]) -> Flip | None:
    figures = {protocol_id: record.wer_pct for protocol_id, record in row.items()}
    known = [figure for figure in figures.values() if figure is not None]
    perfect = len({figure == 0 for figure in known}) > 1
    above = len({figure > ABOVE_PCT for figure in known}) > 1
    first = next(iter(row.values()))
    return Flip(first.row_index, first.utterance_id, figures, perfect, above) if perfect or above else None
