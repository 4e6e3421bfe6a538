"""The sentences that the tiny models learn from: WordNet's usage examples, its glosses, everyday talk, random words.

All are plain: 2 to 16 words, 12 to 88 characters, letters and `, . ? ! ' -` only. None is, or shares a long run of
words with, what mini-en asks a model to say: that set must stay unseen.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.make_mini_en.wordnet import PARTS_OF_SPEECH
from scripts.train_tiny.everyday import Grammar

EXAMPLES = 26_000
EVERYDAY = 36_000
GLOSSES = 36_000
RANDOM = 14_000
"""How many of each, at most."""

SHARED_RUN = 5
"""This many words in a row in common with mini-en (all words of a shorter sentence) keep a sentence out."""
EXAMPLE_WORDS, GLOSS_WORDS = 4, 11
"""The shortest example and the longest gloss: shorter examples are fragments, longer glosses tire."""
LONGEST_WORD = 15
SEEN_OFTEN = 3
"""Words that stand less often in WordNet's texts are names and Latin."""
WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*[,.?!]?")
NOT_PLAIN = re.compile(r"[a-z][A-Z]|[A-Z]{2}|\b(?<!['-])[b-zB-HJ-NP-Z]\b(?!['-])|[.?!] [a-z]")
"""Capitals inside a word, abbreviations and single letters, a full stop within a sentence."""
FLATTENED = 0.6
"""Random words are drawn by their frequency to this power."""


@dataclass(frozen=True)
class Sentence:
    """A text and where it comes from."""

    text: str
    source: str
    """example, gloss, everyday or random."""


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def plain(text: str) -> str | None:
    """`text` with a capital and an end mark, or None when it is not of the plain kind."""
    text = text.replace("`", "'").replace("--", ", ").replace(";", ",").replace(":", ",")
    text = re.sub(r" ?,[ ,]*", ", ", " ".join(text.split())).strip(" ,-")
    if text and text[-1] not in ".?!":
        text += "."
    spoken = text.split()
    if not (2 <= len(spoken) <= 16 and 12 <= len(text) <= 88 and text.count(",") <= 4):
        return None
    if not all(WORD.fullmatch(word) and len(word) <= LONGEST_WORD for word in spoken):
        return None
    if NOT_PLAIN.search(text):
        return None
    return text[0].upper() + text[1:]


def wordnet_texts(folder: Path) -> Iterator[Sentence]:
    """Usage examples as they are, and each gloss's definition without remarks in brackets."""
    for part in PARTS_OF_SPEECH:
        for line in (folder / f"data.{part}").read_text(encoding="latin-1").splitlines():
            gloss = line.partition("|")[2]
            yield from (Sentence(example, "example") for example in re.findall(r'"([^"]+)"', gloss))
            yield Sentence(re.sub(r'"[^"]*"|\([^)]*\)', " ", gloss).split(";")[0], "gloss")


class Seen:
    """The word runs of sentences that must not be learned."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._runs = {run for text in texts for run in self._runs_of(words(text))}
        self._lengths = {len(run) for run in self._runs}

    @staticmethod
    def _runs_of(spoken: list[str]) -> Iterator[tuple[str, ...]]:
        length = min(SHARED_RUN, len(spoken))
        return (tuple(spoken[start : start + length]) for start in range(len(spoken) - length + 1))

    def shares(self, text: str) -> bool:
        spoken = words(text)
        return any(
            tuple(spoken[start : start + length]) in self._runs
            for length in self._lengths
            for start in range(len(spoken) - length + 1)
        )


class Collection:
    """Plain sentences, each once (marks and capitals aside) and none that is kept out."""

    def __init__(self, kept_out: Seen) -> None:
        self.sentences: list[Sentence] = []
        self._known: set[str] = set()
        self._kept_out = kept_out

    def add(self, candidate: Sentence) -> bool:
        text = plain(candidate.text)
        if text is None or (key := " ".join(words(text))) in self._known or self._kept_out.shares(text):
            return False
        self._known.add(key)
        self.sentences.append(Sentence(text, candidate.source))
        return True

    def draw(self, count: int, candidates: Iterator[Sentence]) -> None:
        """Add the first `count` that can be added; endless candidates end by themselves."""
        for candidate in candidates:
            count -= self.add(candidate)
            if count == 0:
                return


def everyday(rng: random.Random) -> Iterator[Sentence]:
    grammar = Grammar()
    while True:
        yield Sentence(grammar.sentence(rng), "everyday")


def random_words(frequencies: Counter[str], rng: random.Random) -> Iterator[Sentence]:
    """Strings in which nothing but its spelling says what the next word is."""
    vocabulary = list(frequencies)
    weights = [count**FLATTENED for count in frequencies.values()]
    while True:
        drawn = rng.choices(vocabulary, weights, k=rng.randint(2, 9))
        if len(drawn) > 4 and rng.random() < 0.25:
            drawn[len(drawn) // 2] += ","
        yield Sentence(" ".join(drawn) + rng.choice("...?!"), "random")


def collect(wordnet: Path, kept_out: Iterable[str], seed: int) -> list[Sentence]:
    """All sentences, shuffled."""
    rng = random.Random(seed)
    texts = sorted(set(wordnet_texts(wordnet)), key=lambda sentence: (sentence.source, sentence.text))
    rng.shuffle(texts)
    counts = Counter(word for sentence in texts for word in words(sentence.text))
    common = [sentence for sentence in texts if all(counts[word] >= SEEN_OFTEN for word in words(sentence.text))]
    collection = Collection(Seen(kept_out))
    examples = (one for one in common if one.source == "example" and len(one.text.split()) >= EXAMPLE_WORDS)
    glosses = (one for one in common if one.source == "gloss" and len(one.text.split()) <= GLOSS_WORDS)
    collection.draw(EXAMPLES, examples)
    collection.draw(EVERYDAY, everyday(rng))
    spoken = Counter(word for sentence in collection.sentences for word in words(sentence.text))
    collection.draw(GLOSSES, glosses)
    collection.draw(RANDOM, random_words(spoken, rng))
    rng.shuffle(collection.sentences)
    return collection.sentences
