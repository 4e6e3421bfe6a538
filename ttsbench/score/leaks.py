"""Words of a voice prompt at the head of what was heard: a row's own prompt, or another row's.

A cloned row that begins with the end of its reference has not been cut exactly; one that says another row's reference
has been mixed up with it. Words that the target text holds anywhere prove nothing and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ttsbench.records.wer import PromptLeak


@dataclass(frozen=True)
class Fewest:
    """Words in a row that make a leak: of the end of a row's own prompt, and anywhere in another's."""

    own: int
    foreign: int


WORDS, CHARACTERS = Fewest(2, 4), Fewest(4, 8)
"""By what the text rule calls a word; a Chinese one is a character, and two of those meet by chance."""
HEAD_WORDS = 3
"""Words at the head of a transcript within which a leak must begin."""


@dataclass(frozen=True)
class Saying:
    """One row's texts as words, all under one text rule."""

    row_index: int
    target: tuple[str, ...]
    heard: tuple[str, ...]
    prompt: tuple[str, ...]
    """What its voice prompt says; empty for a row without one."""


def leaks(sayings: Sequence[Saying], fewest: Fewest = WORDS) -> tuple[PromptLeak, ...]:
    """Every row that begins with words of a prompt; the longest stretch of each, a row's own prompt first."""
    index = _index(sayings, fewest.foreign)
    found = (_own(saying, fewest.own) or _foreign(saying, index, fewest.foreign) for saying in sayings)
    return tuple(leak for leak in found if leak is not None)


def _own(saying: Saying, fewest: int) -> PromptLeak | None:
    """The longest stretch of the prompt, up to its end, that is heard at the head."""
    for length in range(len(saying.prompt), fewest - 1, -1):
        words = saying.prompt[-length:]
        if words in _heads(saying.heard, length) and not _holds(saying.target, words):
            return PromptLeak(row_index=saying.row_index, prompt_row_index=saying.row_index, own=True, words=words)
    return None


def _foreign(saying: Saying, index: dict[tuple[str, ...], list[Saying]], fewest: int) -> PromptLeak | None:
    for head in _heads(saying.heard, fewest):
        if _holds(saying.target, head):
            continue
        # A prompt may be shared: words of the row's own are no foreign ones.
        sources = index.get(head, [])
        own = _holds(saying.prompt, head)
        if sources:
            row = saying.row_index if own else sources[0].row_index
            return PromptLeak(row_index=saying.row_index, prompt_row_index=row, own=own, words=head)
    return None


def _index(sayings: Sequence[Saying], fewest: int) -> dict[tuple[str, ...], list[Saying]]:
    """Which sayings' prompts hold each stretch of `fewest` words."""
    index: dict[tuple[str, ...], list[Saying]] = {}
    for saying in sayings:
        for start in range(len(saying.prompt) - fewest + 1):
            index.setdefault(saying.prompt[start : start + fewest], []).append(saying)
    return index


def _heads(words: tuple[str, ...], length: int) -> list[tuple[str, ...]]:
    """Stretches of `length` words that begin within HEAD_WORDS."""
    return [words[start : start + length] for start in range(min(HEAD_WORDS, len(words) - length + 1))]


def _holds(words: tuple[str, ...], stretch: tuple[str, ...]) -> bool:
    return stretch in _stretches(words, len(stretch))


def _stretches(words: tuple[str, ...], length: int) -> Iterator[tuple[str, ...]]:
    return (words[start : start + length] for start in range(len(words) - length + 1))
