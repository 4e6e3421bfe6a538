"""WordNet 3.0 as two things: the set of ordinary words, and the texts that the tiny checkpoint was trained on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")

# WordNet's own rules of detachment (morphy(7WN)): an inflected ending and the ending of its lemma.
ENDINGS = (
    ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
    ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""), ("er", ""), ("est", ""), ("er", "e"),
    ("est", "e"),
)  # fmt: skip


class WordNet:
    """The database in one folder (`index.noun`, `data.noun`, `noun.exc`, ...), read whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lemmas = {line.split()[0] for name in self._names("index.{}") for line in self._lines(name)}
        self._exceptions = {line.split()[0] for name in self._names("{}.exc") for line in self._lines(name)}

    def knows(self, word: str) -> bool:
        """Whether `word`, in lower case, is a lemma or a form of one. `_` joins the words of a collocation."""
        if word in self._lemmas or word in self._exceptions:
            return True
        return any(word.endswith(end) and word.removesuffix(end) + lemma in self._lemmas for end, lemma in ENDINGS)

    def texts(self) -> Iterator[str]:
        """Every usage example and every piece of every gloss."""
        for name in self._names("data.{}"):
            for line in self._lines(name):
                gloss = line.partition("|")[2]
                yield from re.findall(r'"([^"]+)"', gloss)
                yield from re.sub(r'"[^"]*"|\([^)]*\)', " ", gloss).split(";")

    def _names(self, pattern: str) -> list[str]:
        return [pattern.format(part) for part in PARTS_OF_SPEECH]

    def _lines(self, name: str) -> Iterator[str]:
        with (self._folder / name).open(encoding="latin-1") as file:
            # The licence stands in front of each file, its lines indented by two spaces.
            yield from (line for line in file if not line.startswith("  "))
