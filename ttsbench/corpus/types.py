"""A corpus: the rows of one list file, the layout they were read by, and which of them were picked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ttsbench.corpus.layout import Layout

Locale = Literal["en", "zh"]


@dataclass(frozen=True)
class CorpusRow:
    """One line of a list: a text to speak and, where the layout has them, a voice to clone and a human reading.

    None means that the layout has no such column or that the line leaves it empty. Paths are absolute; nobody has
    looked yet whether the files exist (`ttsbench.corpus.content` does).
    """

    utterance_id: str
    """Unique within the list and safe as a file name: `<utterance_id>.wav`."""
    text: str
    prompt_text: str | None
    """What is said in `prompt_audio`."""
    prompt_audio: Path | None
    """The clip whose voice is to be cloned."""
    ground_truth_audio: Path | None
    """A recording of `text` by a human."""
    line: int
    """Line number in the list, from 1."""


@dataclass(frozen=True)
class Selection:
    """How the rows of a corpus were picked from its list: first by id, then put in seeded order, then cut."""

    rows_in_list: int
    ids: tuple[str, ...] | None = None
    """The ids that were asked for, in file order."""
    shuffle_seed: int | None = None
    """None keeps the file's order."""
    first: int | None = None


@dataclass(frozen=True)
class Corpus:
    """Rows in file order, unless `selection` says otherwise."""

    name: str
    """For people: `mini-en`, or the list's folder and file name, as in `en/meta.lst`. The identity is `sha256`."""
    path: Path
    locale: Locale
    fields: Layout
    """The columns of this file, in order. One layout per file."""
    sha256: str
    """Of the list's bytes, as they lie on disk. The audio is not part of it."""
    rows: tuple[CorpusRow, ...]
    selection: Selection | None = None
    """None: every row, in file order."""
