"""Counts, rates and aggregates, on numbers worked out by hand."""

from __future__ import annotations

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsbench.score.wer import WordEdits, aggregate, all_deleted, split_words, trailing_deletions, word_edits


@pytest.mark.parametrize(
    ("reference", "hypothesis", "expected"),
    [
        ("a b c", "a b c", (0, 0, 0, 3)),
        ("a b c", "a x c", (1, 0, 0, 3)),
        ("a b c", "a c", (0, 1, 0, 3)),
        ("a b c", "a b c d", (0, 0, 1, 3)),
        ("a b c", "", (0, 3, 0, 3)),
        ("a b c", "   ", (0, 3, 0, 3)),
        ("a", "v w x y", (1, 0, 3, 1)),
        ("wellknown fact", " well known fact ", (1, 0, 1, 2)),
    ],
)
def test_counts_of_a_row(reference: str, hypothesis: str, expected: tuple[int, int, int, int]) -> None:
    """Red when a kind of edit is miscounted; an empty hypothesis is all deletions whatever jiwer makes of it."""
    edits = word_edits(reference, hypothesis)
    assert (edits.substitutions, edits.deletions, edits.insertions, edits.reference_words) == expected


@pytest.mark.parametrize(
    ("reference", "hypothesis", "lost"),
    [
        ("a b c d", "a b", 2),
        ("a b c d", "a b c x", 0),
        ("a b c d", "b c d", 0),
        ("a b c d", "a d", 0),
        ("a b c d", "a b c d e", 0),
        ("a b c d", "", 0),
        ("", "a", 0),
    ],
)
def test_words_lost_at_the_end(reference: str, hypothesis: str, lost: int) -> None:
    """Red when deletions elsewhere count, or a row in which nothing was heard, which has a count of its own."""
    assert trailing_deletions(reference, hypothesis) == lost


def test_an_empty_reference_is_not_a_score() -> None:
    """jiwer 4 calls ('', '') perfect and ('', 'silence') 100 %, jiwer 3 fails: red when it gets to decide."""
    for hypothesis in ("", "silence"):
        with pytest.raises(ValueError, match="cannot be scored"):
            word_edits("  ", hypothesis)


@given(st.text(st.sampled_from("ab \t\n\u00a0"), max_size=12))
def test_words_are_split_as_jiwer_does_by_default(text: str) -> None:
    """Red when white space, the no-break space included, is treated more kindly than in the official script."""
    assert split_words(text) == jiwer.transformations.wer_default(text)[0]


def test_sentence_wer_is_not_capped() -> None:
    """One reference word against four is 400 %."""
    assert word_edits("a", "v w x y").wer_pct == 400


def test_both_means_of_a_wrong_word_and_a_right_sentence() -> None:
    """Red when one of the two is printed for the other: mean (100 + 0) / 2, corpus 1 error in 21 words."""
    stats = aggregate([WordEdits(1, 0, 0, 1), WordEdits(0, 0, 0, 20)])
    assert stats.sentence_mean_pct == 50
    assert stats.corpus_pct == pytest.approx(100 / 21)
    assert round(stats.corpus_pct or 0, 2) == 4.76


def test_aggregates_of_four_rows_by_hand() -> None:
    """Sentence WERs 0, 50, 100 and 400 %: 50 is not above 50; p95 lies 0.85 of the way from 100 to 400."""
    rows = [WordEdits(0, 0, 0, 4), WordEdits(0, 1, 0, 2), WordEdits(0, 2, 0, 2), WordEdits(1, 0, 3, 1)]
    stats = aggregate(rows)
    assert (stats.rows, stats.substitutions, stats.deletions, stats.insertions) == (4, 1, 3, 3)
    assert (stats.sentence_mean_pct, stats.sentence_mean_capped_pct) == (137.5, 62.5)
    assert (stats.sentence_median_pct, stats.sentence_max_pct) == (75, 400)
    assert stats.sentence_p95_pct == pytest.approx(355)
    assert (stats.rows_above_50_pct, stats.share_above_50_pct) == (2, 50)
    assert stats.corpus_pct == pytest.approx(100 * 7 / 9)


def test_a_charge_loses_every_word_of_the_reference() -> None:
    """Red when a charged row counts fewer errors than words; a text without words is still wholly wrong."""
    assert all_deleted("a b c") == WordEdits(0, 3, 0, 3)
    assert all_deleted("") == WordEdits(0, 0, 0, 0)
    assert all_deleted("").wer_pct == 100


def test_what_cannot_be_known_is_null_with_a_reason() -> None:
    """Red when a missing denominator becomes a zero, or a row of unknown text is left out of the sentence figures."""
    assert aggregate([all_deleted("")]).corpus_pct_missing == "no reference words"
    stats = aggregate([WordEdits(0, 0, 0, 4), None])
    assert stats.sentence_mean_pct == 50
    assert (stats.corpus_pct, stats.corpus_pct_missing) == (None, "1 rows have an unknown text")
