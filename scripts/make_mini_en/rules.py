"""What a mini-en sentence must be like. Every rule looks at text alone; none knows what a model makes of a sentence."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from wordnet import WordNet

SHARED_RUN = 5
"""This many words in a row in common with a training text count as having been seen."""

_LISTS = {
    name: frozenset(text.split())
    for name, text in tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8")).items()
}
FUNCTION_WORDS = _LISTS["function"]
CONTRACTIONS = _LISTS["contractions"]
LARGE_NUMBERS = _LISTS["large_numbers"]
TWO_SPELLINGS = _LISTS["two_spellings"]

# The everyday templates of the tiny checkpoint's training text: how they begin, and who does what to which things.
TEMPLATE_OPENINGS = re.compile(
    r"(where is|do you remember|how much does|what do you think about|have you seen|can you help me with|why did"
    r"|when will|is it true that|could you please tell me|what time is it|there are \w+ people|i think|thank you for"
    r"|please bring|the meeting is on|it was \w+ degrees|welcome to|good morning|we need \w+ more|the number is"
    r"|this is a test|if it rains|hello my name is)\b"
)
TEMPLATE_ACTIONS = re.compile(
    r"\b(walked to|looked at|talked about|waited for|wrote about|found|painted|remembered|visited|bought|sold|cleaned"
    r"|left|opened|closed) (the station|the old house|a new computer|the river|the garden|a small boat|the red car"
    r"|an interesting book|the kitchen|the morning train|a cup of coffee|the telephone|the mountain|the museum"
    r"|a warm coat|the front door|the broken window|a piece of music|the weather report|the city)\b"
)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def runs(text: str, length: int) -> Iterable[tuple[str, ...]]:
    """All runs of `length` words in `text`."""
    spoken = words(text)
    return zip(*(spoken[start:] for start in range(length)), strict=False)


def wrong_form(text: str) -> str | None:
    """Plain text: 12 to 88 characters, 4 to 16 words, one sentence, capitals only at its start and in "I"."""
    if not 12 <= len(text) <= 88:
        return f"{len(text)} characters"
    if not 4 <= len(text.split()) <= 16:
        return f"{len(text.split())} words"
    if not re.fullmatch(r"[A-Z][a-z']*(,? [A-Za-z'][a-z']*)*[.?!]", text):
        return "a character or mark that is not plain"
    for word in re.findall(r"[A-Za-z']+", text)[1:]:
        if word[0].isupper() and word != "I":
            return f"the name {word}"
    return None


def uncommon_word(text: str, wordnet: WordNet) -> str | None:
    """Every word is in WordNet, a function word or a contraction with one spelling; numbers stop at ten."""
    for word in words(text):
        if word in LARGE_NUMBERS:
            return f"the number {word}, which speech recognition may write in digits"
        if "'" in word and word not in CONTRACTIONS:
            return f"the apostrophe in {word}"
        if not (word in FUNCTION_WORDS or word in CONTRACTIONS or wordnet.knows(word)):
            return f"the word {word}"
    return None


def two_spellings(text: str, wordnet: WordNet) -> str | None:
    """A word on the list above, or a compound that WordNet also writes in another way (handmade, hand-made)."""
    spoken = words(text)
    for word in spoken:
        if word in TWO_SPELLINGS:
            return f"the spelling of {word}"
        for cut in range(2, len(word) - 1):
            if any(wordnet.knows(word[:cut] + joint + word[cut:]) for joint in "-_"):
                return f"the compound {word}"
    for left, right in pairwise(spoken):
        if min(len(left), len(right)) > 1 and any(wordnet.knows(left + joint + right) for joint in ("", "-")):
            return f"the compound {left} {right}"
    return None


class Seen:
    """Texts that a checkpoint was trained on, as the set of their word runs."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._runs = {run for text in texts for length in range(1, SHARED_RUN + 1) for run in runs(text, length)}

    def reason(self, text: str) -> str | None:
        """A run of SHARED_RUN words (of all words, where there are fewer) that was seen, or a training template."""
        for run in runs(text, min(SHARED_RUN, len(words(text)))):
            if run in self._runs:
                return f"the seen words '{' '.join(run)}'"
        spoken = " ".join(words(text))
        if TEMPLATE_OPENINGS.match(spoken) or TEMPLATE_ACTIONS.search(spoken):
            return "a training template"
        return None
