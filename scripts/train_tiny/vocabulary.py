"""Chooses the merges of the text vocabulary, so that one token is about one codec frame of natural speech.

    python -m scripts.train_tiny.vocabulary --teacher TEACHER TEXT

TEXT is a folder made by `text` with any merges, TEACHER the one of `teacher_pack`. Writes `merges.txt` beside this
file; then make TEXT again.

The teacher is paced so that every word lasts as many codec frames as it has tokens. A vocabulary of bare bytes would
slow speech down by half, and merges chosen by frequency, as usual, do not care for sound: "ough" costs four frames in
"though". Here the next merge is always the one that brings tokens per word closest to the teacher's natural lengths.
What is minimised is the squared log stretch, log(tokens / natural frames), summed over all words heard.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from tokenizers import Regex, pre_tokenizers

from scripts.train_tiny.corpus import HELD_OUT, Text, read_text
from scripts.train_tiny.kokoro import Kokoro
from scripts.train_tiny.pace import LONGEST, RATIO, spoken_symbols, word_of_symbol
from scripts.train_tiny.tokenizer_files import MERGES, Merge
from scripts.train_tiny.voices import NAMED_ROWS, Voices
from ttsbench.models.qwen3_tts.tokenizer import SPLITS

VOICES = sorted(NAMED_ROWS)
"""Sentences take the named voices in turn."""
MOST_MERGES = 128
SMALLEST_GAIN = 0.0006
"""Of the bare bytes' squared log stretch: a merge that helps less stands in too few words to be learned."""

Gain = Callable[["Word", int], float]


@dataclass
class Word:
    """A word as it stands between spaces, with its comma, however often it was heard."""

    pieces: list[list[str]]
    """Tokens so far, within the pieces that merges cannot cross. The space in front is "Ġ"."""
    heard: int
    log_frames: float
    """Mean log of its natural length in codec frames."""
    square: float
    """Sum of squares of those logs around their mean."""

    @property
    def tokens(self) -> int:
        return sum(map(len, self.pieces))

    def misfit(self, tokens: int) -> float:
        """Summed squared log stretch with so many tokens."""
        return self.heard * (math.log(tokens) - self.log_frames) ** 2 + self.square


def closer(word: Word, saved: int) -> float:
    """How much of the squared log stretch disappears with `saved` tokens."""
    return word.misfit(word.tokens) - word.misfit(word.tokens - saved)


def more_frequent(word: Word, saved: int) -> float:
    """The usual choice, to compare with."""
    return word.heard * saved


def merged(tokens: list[str], pair: Merge) -> list[str]:
    out: list[str] = []
    for token in tokens:
        if out and (out[-1], token) == pair:
            out[-1] += token
        else:
            out.append(token)
    return out


def choose(words: list[Word], gain: Gain, smallest: float, most: int) -> Iterator[Merge]:
    """Merges in the order of their ranks, each the best one after those before. `words` follow: their tokens merge."""
    holders: dict[Merge, set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in _pairs(word):
            holders[pair].add(index)
    for _ in range(most):
        gains = {
            pair: sum(gain(words[index], _saved(words[index], pair)) for index in sorted(indices))
            for pair, indices in holders.items()
        }
        best = max(gains, key=lambda pair: (gains[pair], pair))
        if gains[best] < smallest:
            return
        for index in holders.pop(best):
            word = words[index]
            word.pieces = [merged(tokens, best) for tokens in word.pieces]
            for pair in _pairs(word):
                holders[pair].add(index)
        yield best


def _pairs(word: Word) -> Iterator[Merge]:
    for tokens in word.pieces:
        yield from pairwise(tokens)


def _saved(word: Word, pair: Merge) -> int:
    return sum(len(tokens) - len(merged(tokens, pair)) for tokens in word.pieces)


def spread(words: list[Word]) -> tuple[float, float]:
    """Mean and standard deviation of the log stretch, over all words heard."""
    heard = sum(word.heard for word in words)
    mean = sum(word.heard * (math.log(word.tokens) - word.log_frames) for word in words) / heard
    return mean, math.sqrt(sum(word.misfit(word.tokens) for word in words) / heard - mean**2)


def word_types(lengths: dict[str, list[float]]) -> list[Word]:
    """Words from the natural lengths, in codec frames, that each was heard with."""
    split = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLITS["qwen2"]), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    words = []
    for text, frames in lengths.items():
        logs = np.log(frames)
        pieces = [list(piece) for piece, _ in split.pre_tokenize_str(text)]
        words.append(Word(pieces, len(logs), float(logs.mean()), float(((logs - logs.mean()) ** 2).sum())))
    return words


def natural_lengths(
    text: Text, sentences: list[str], kokoro: Kokoro, voices: Voices, count: int
) -> dict[str, list[float]]:
    """Natural lengths in codec frames of the words of `count` sentences, by spelling.

    A word counts its comma and the space behind it, as pacing does; the marks that end a sentence do not count.
    """
    by_symbols: dict[int, list[int]] = defaultdict(list)
    for index in range(HELD_OUT, HELD_OUT + count):
        by_symbols[int(text.phoneme_counts[index])].append(index)
    lengths: dict[str, list[float]] = defaultdict(list)
    for symbol_count, indices in sorted(by_symbols.items()):
        symbols = torch.from_numpy(np.stack([text.symbols(index) for index in indices])).long()
        rows = torch.tensor([VOICES[index % len(VOICES)] for index in indices])
        natural = kokoro.read(symbols, voices.style(rows, symbol_count)).durations[:, 1:-1].clamp(1.0, LONGEST)
        natural *= torch.arange(symbol_count) < spoken_symbols(symbols)[:, None]
        word = word_of_symbol(symbols)
        frames = torch.zeros_like(natural).scatter_add_(1, word, natural) / RATIO
        for index, row in zip(indices, frames.tolist(), strict=True):
            for number, spelling in enumerate(sentences[index].rstrip(".?!,").split(" ")):
                lengths[" " * (number > 0) + spelling].append(row[number])
    return lengths


def report(name: str, words: list[Word]) -> None:
    mean, deviation = spread(words)
    print(f"{name}: stretch {math.exp(mean):.3f}, sd of its log {deviation:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=2_000, help="how many the teacher reads, about 0.08 s each")
    parser.add_argument("text", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sentences = (options.text / "sentences.txt").read_text(encoding="utf-8").splitlines()
    kokoro, voices = Kokoro.load(options.teacher, "cpu"), Voices(options.teacher, "cpu")
    lengths = natural_lengths(read_text(options.text), sentences, kokoro, voices, options.sentences)
    words = word_types(lengths)
    report("bytes", words)
    smallest = SMALLEST_GAIN * sum(word.misfit(word.tokens) for word in words)
    merges = list(choose(words, closer, smallest, MOST_MERGES))
    report(f"{len(merges)} merges", words)
    for usual in (12, len(merges)):
        words = word_types(lengths)
        list(choose(words, more_frequent, 1.0, usual))
        report(f"{usual} merges by frequency", words)
    MERGES.write_text("".join(f"{left} {right}\n" for left, right in merges), encoding="utf-8")


if __name__ == "__main__":
    main()
