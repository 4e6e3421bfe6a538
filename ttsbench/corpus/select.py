"""Picks rows of a corpus and writes down how, so that a part is never taken for the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from ttsbench.core import InvalidInput, Problem
from ttsbench.corpus.types import Corpus, CorpusRow, Selection


def select(
    corpus: Corpus,
    *,
    ids: Iterable[str] | None = None,
    shuffle_seed: int | None = None,
    first: int | None = None,
) -> Corpus:
    """The rows with these `ids` (in file order), then shuffled by `shuffle_seed`, then the `first` ones of them.

    Raises InvalidInput for unknown ids, for `first` below 1, and for more rows than there are: repeating rows to reach
    a number would make another set. Raises ValueError for a corpus that is a selection already.
    """
    if corpus.selection is not None:
        raise ValueError("this corpus is a selection already; select once, from the whole list")
    rows = corpus.rows
    problems: list[Problem] = []
    if ids is not None:
        wanted = set(ids)
        rows = tuple(row for row in rows if row.utterance_id in wanted)
        known = {row.utterance_id for row in rows}
        where = str(corpus.path)
        problems += [Problem(where, "an id of this list", repr(name)) for name in sorted(wanted - known)]
        if not wanted:
            problems.append(Problem(where, "at least one id", "none"))
    picked_ids = None if ids is None else tuple(row.utterance_id for row in rows)
    if shuffle_seed is not None:
        rows = shuffled(rows, shuffle_seed)
    if first is not None:
        if not problems and not 1 <= first <= len(rows):
            problems.append(Problem("first", f"1 to {len(rows)} rows", str(first)))
        rows = rows[:first]
    if problems:
        raise InvalidInput(problems)
    selection = Selection(rows_in_list=len(corpus.rows), ids=picked_ids, shuffle_seed=shuffle_seed, first=first)
    return replace(corpus, rows=rows, selection=selection)


def shuffled(rows: tuple[CorpusRow, ...], seed: int) -> tuple[CorpusRow, ...]:
    """Rows in the order of SHA-256(`seed:id`).

    A hash and not `random.shuffle`: its order is the same in every Python version, and two rows keep their relative
    order when others are left out.
    """
    return tuple(sorted(rows, key=lambda row: hashlib.sha256(f"{seed}:{row.utterance_id}".encode()).digest()))
