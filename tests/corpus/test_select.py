"""Parts of a corpus say that they are parts, and how they were cut."""

from __future__ import annotations

import pytest

from ttsbench.core import InvalidInput
from ttsbench.corpus import Corpus, Selection, load_corpus, select

GOLDEN_SEED_7 = ["u6", "u4", "u1", "u3", "u2", "u7", "u0", "u5"]
"""Sorted by `printf 7:u0 | sha256sum` and so on, in a shell."""


@pytest.fixture
def corpus(write_list) -> Corpus:
    return load_corpus(write_list(*(f"u{number}|text" for number in range(8))))


def ids(corpus: Corpus) -> list[str]:
    return [row.utterance_id for row in corpus.rows]


def test_the_whole_list_is_no_selection(corpus):
    assert corpus.selection is None
    assert ids(corpus) == [f"u{number}" for number in range(8)]


def test_first_rows_are_those_of_the_file(corpus):
    part = select(corpus, first=3)
    assert ids(part) == ["u0", "u1", "u2"]
    assert part.selection == Selection(rows_in_list=8, first=3)
    assert part.sha256 == corpus.sha256


def test_ids_keep_file_order(corpus):
    part = select(corpus, ids=["u5", "u2", "u5"])
    assert ids(part) == ["u2", "u5"]
    assert part.selection == Selection(rows_in_list=8, ids=("u2", "u5"))


def test_a_seed_gives_one_order_for_ever(corpus):
    """The order is written down. Red when the hash or its input changes: old runs would have had another set."""
    part = select(corpus, shuffle_seed=7)
    assert ids(part) == GOLDEN_SEED_7
    assert ids(select(corpus, shuffle_seed=8)) != ids(part)
    assert part.selection == Selection(rows_in_list=8, shuffle_seed=7)


def test_seed_zero_is_a_seed(corpus):
    """Red when the seed is tested for truth."""
    part = select(corpus, shuffle_seed=0)
    assert part.selection == Selection(rows_in_list=8, shuffle_seed=0)
    assert ids(part) != ids(corpus)
    assert sorted(ids(part)) == ids(corpus)


def test_ids_then_shuffle_then_first(corpus):
    """Red when rows are cut before they are shuffled."""
    wanted = ["u1", "u3", "u4", "u6"]
    part = select(corpus, ids=wanted, shuffle_seed=7, first=2)
    assert ids(part) == [name for name in GOLDEN_SEED_7 if name in wanted][:2]


def test_more_rows_than_there_are_is_an_error_and_not_a_bigger_set(corpus):
    for first in (0, -1, 9):
        with pytest.raises(InvalidInput, match="1 to 8 rows"):
            select(corpus, first=first)
    with pytest.raises(InvalidInput, match="1 to 2 rows"):
        select(corpus, ids=["u1", "u2"], first=3)


def test_unknown_ids_are_all_named(corpus):
    with pytest.raises(InvalidInput) as caught:
        select(corpus, ids=["nobody", "u1", "no one"])
    assert [problem.got for problem in caught.value.problems] == ["'no one'", "'nobody'"]
    with pytest.raises(InvalidInput, match="at least one id"):
        select(corpus, ids=[])


def test_a_selection_is_not_selected_from(corpus):
    """Its record could not say both steps."""
    with pytest.raises(ValueError, match="already"):
        select(select(corpus, first=4), first=2)
