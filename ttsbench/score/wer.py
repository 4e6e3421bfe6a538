"""Word error rate: edits between two normalised texts, and their aggregates over rows.

Counts come first and rates are read off them. jiwer aligns; what an empty side means is decided here, since jiwer has
changed its mind about that between versions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import jiwer
import numpy as np

from ttsbench.records import WerStats
from ttsbench.score.bootstrap import intervals


@dataclass(frozen=True)
class WordEdits:
    """Edits that turn the reference into the hypothesis."""

    substitutions: int
    deletions: int
    insertions: int
    reference_words: int

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def wer_pct(self) -> float:
        """Sentence WER in percent. A reference without words has lost all it could: 100."""
        return 100 * self.errors / self.reference_words if self.reference_words else 100.0


def split_words(normalised: str) -> list[str]:
    """Words as jiwer's default transform finds them: runs of white space squeezed, ends trimmed, split at spaces."""
    return [word for word in re.sub(r"\s\s+", " ", normalised).strip().split(" ") if word]


def word_edits(reference: str, hypothesis: str) -> WordEdits:
    """Edits between two normalised texts. An empty hypothesis is all deletions; an empty reference is a ValueError."""
    expected, heard = split_words(reference), split_words(hypothesis)
    if not expected:
        raise ValueError("a reference without words cannot be scored; charge the row")
    if not heard:
        return WordEdits(0, len(expected), 0, len(expected))
    out = jiwer.process_words(" ".join(expected), " ".join(heard))
    return WordEdits(out.substitutions, out.deletions, out.insertions, len(expected))


def trailing_deletions(reference: str, hypothesis: str) -> int:
    """Words lost at the end of the reference, where anything was heard at all; 0 for an empty hypothesis."""
    expected, heard = split_words(reference), split_words(hypothesis)
    if not expected or not heard:
        return 0
    last = jiwer.process_words(" ".join(expected), " ".join(heard)).alignments[0][-1]
    return last.ref_end_idx - last.ref_start_idx if last.type == "delete" else 0


def all_deleted(reference: str) -> WordEdits:
    """The charge for a row with no audio worth recognising: every reference word deleted (0 words is possible)."""
    words = len(split_words(reference))
    return WordEdits(0, words, 0, words)


def aggregate(rows: Sequence[WordEdits | None]) -> WerStats:
    """Aggregates over rows, None being a row charged without its text being known. At least one row is needed.

    Such a row counts 100 % in the sentence figures; the corpus figure is then null, as its reference words are unknown.
    """
    known = [row for row in rows if row is not None]
    wer = np.array([100.0 if row is None else row.wer_pct for row in rows])
    above = int((wer > 50).sum())
    words = sum(row.reference_words for row in known)
    unknown = len(rows) - len(known)
    reason = f"{unknown} rows have an unknown text" if unknown else None if words else "no reference words"
    counted = None if reason else ([row.errors for row in known], [row.reference_words for row in known])
    mean_interval, corpus_interval = intervals(wer, counted)
    return WerStats(
        rows=len(rows),
        sentence_mean_pct=float(wer.mean()),
        sentence_mean_capped_pct=float(np.minimum(wer, 100).mean()),
        sentence_median_pct=float(np.median(wer)),
        sentence_p95_pct=float(np.percentile(wer, 95)),
        sentence_max_pct=float(wer.max()),
        rows_above_50_pct=above,
        share_above_50_pct=100 * above / len(rows),
        substitutions=sum(row.substitutions for row in known),
        deletions=sum(row.deletions for row in known),
        insertions=sum(row.insertions for row in known),
        reference_words=words,
        corpus_pct=None if reason else 100 * sum(row.errors for row in known) / words,
        corpus_pct_missing=reason,
        sentence_mean_interval=mean_interval,
        corpus_interval=corpus_interval,
    )
