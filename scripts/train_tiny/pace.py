"""Durations on the token grid: every word of a paced sentence starts on the codec frame of its own first text token.

A paced sentence is LEAD codec frames of silence, one frame a spoken token, and TAIL frames. A word lasts as many frames
as it has tokens; inside it the symbols keep their natural proportions. The talker then never has to learn when a word
is said: the token that it reads is the token that is spoken.

The teacher's sound runs AHEAD of its symbols: what is heard at a teacher frame belongs to the symbol of two or three
frames later (the package's own time stamps take three off too). Symbols are therefore planned that much later, and
labels read that much further on.

Shapes: B sentences of one symbol count P, S = P + 2 symbols with the silences around, W words, T tokens.
A teacher frame is 25 ms (600 samples), a codec frame 80 ms (1920 samples): 3.2 teacher frames.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

Frames = TypeVar("Frames", int, Tensor)

LEAD, TAIL = 5, 5
"""Silent codec frames before the first and after the last spoken token: LEAD is how far text runs ahead of speech."""
RATIO = 3.2
"""Teacher frames a codec frame."""
AHEAD = 2.5
"""Teacher frames (63 ms) by which sound precedes its symbol: where a label tells most about the spectrum (measured)."""
LONGEST, LAST = 6.0, 4.0
"""Teacher frames (150 and 100 ms) of any symbol and of a sentence's last sound. A symbol before a pause holds the pause
too, a comma as well: beyond this it is silence."""
DYING = 2
"""Teacher frames that a paced sentence's last sound keeps on in the tail: cut off there, a consonant is lost."""

SAMPLES = 600
"""Samples of a teacher frame, at 24 kHz."""

RUN_UP, RUN_OUT = 8, 12
"""Teacher frames to be cut from the head and the end of speech at its natural pace. The vocoder stays silent for some
ten frames whatever it is told to say, and likes to end as slowly: hurried, it swallows the first or the last sound."""

SYMBOLS = 178
"""Ids of the teacher's alphabet."""
SPACE = 16
CLOSING = (3, 4, 5, 6)
"""Symbol ids of , . ! ? at the end of a sentence."""
STRESS = (156, 157)
"""Stress marks: they sound like the vowel that follows."""
FIRST_SOUND = 24
"""Symbol ids below are silence, punctuation and modifiers."""
NO_TOKEN = 255
"""In place of a token's index, where none is spoken."""


@dataclass(frozen=True)
class Limits:
    """How far a sentence may be from its natural pace, as new duration over natural duration."""

    word: tuple[float, float] = (0.45, 2.6)
    sentence: tuple[float, float] = (0.7, 1.9)


@dataclass(frozen=True)
class Pace:
    """Whole durations and how much they stretch."""

    durations: Tensor
    """Teacher frames of every symbol, int64 [B, S]."""
    agrees: Tensor
    """bool [B]: the symbols have as many words as the text. Otherwise the sentence is scaled as one word."""
    word_stretch: Tensor
    """float [B, W]; 1 where there is no word."""
    sentence_stretch: Tensor
    """float [B]"""

    def within(self, limits: Limits) -> Tensor:
        """bool [B]"""
        word, sentence = self.word_stretch, self.sentence_stretch
        low, high = limits.word
        words_fit = ((word > low) & (word < high)).all(1)
        return words_fit & (sentence > limits.sentence[0]) & (sentence < limits.sentence[1])


def teacher_frames(frames: Frames) -> Frames:
    """Whole teacher frames that cover `frames` codec frames, a number or a tensor of them."""
    return -(-frames * 16 // 5)


def spoken_symbols(symbols: Tensor) -> Tensor:
    """int64 [B]: symbols before the closing run of punctuation."""
    closing = torch.isin(symbols, torch.tensor(CLOSING, device=symbols.device))
    return symbols.shape[1] - closing.flip(1).long().cumprod(1).sum(1)


def word_of_symbol(symbols: Tensor) -> Tensor:
    """Index of the word each symbol belongs to, int64 [B, P]. A space and a comma end the word before them."""
    spaces = (symbols == SPACE).long()
    return spaces.cumsum(1) - spaces


def word_tokens(starts: Tensor, spoken: Tensor) -> Tensor:
    """Spoken tokens of every word, int64 [B, T], zeros behind the last one.

    starts: bool [B, T], the token begins a word; the first one does in any case. spoken: int64 [B], tokens that count.
    """
    place = torch.arange(starts.shape[1], device=starts.device)
    live = (place < spoken[:, None]).long()
    word = (starts | (place == 0)).long().cumsum(1) - 1
    return torch.zeros_like(word).scatter_add_(1, word, live)


def paced(natural: Tensor, symbols: Tensor, words: Tensor) -> Pace:
    """Durations with every word on its token.

    natural: float [B, S] teacher frames; symbols: int64 [B, P]; words: int64 [B, W] tokens of every word, 0 = no word.
    """
    place = torch.arange(symbols.shape[1], device=symbols.device)
    spoken = spoken_symbols(symbols)
    live, last = place < spoken[:, None], place == spoken[:, None] - 1
    length = natural[:, 1:-1].double().clamp(1.0, LONGEST) * live
    length = torch.where(last, length.clamp(max=LAST), length)
    word, words, agrees = _matched(symbols, live, words)
    target = words.double() * RATIO
    natural_word = torch.zeros_like(target).scatter_add_(1, word, length)
    stretch = torch.where(target > 0, target / natural_word.clamp(min=1e-6), 1.0)
    planned = length * stretch.gather(1, word)
    return Pace(_whole(planned, spoken, words.sum(1)), agrees, stretch, target.sum(1) / length.sum(1))


def _matched(symbols: Tensor, live: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Word of each symbol [B, P], tokens of each word [B, W], and bool [B]: whether `live` symbols and tokens have the
    same words; where they have not, the sentence counts as one.
    """
    word = word_of_symbol(symbols)
    agrees = (word * live).amax(1) + 1 == (words > 0).sum(1)
    whole_sentence = F.pad(words.sum(1, keepdim=True), (0, words.shape[1] - 1))
    word = (word * agrees[:, None]).clamp(max=words.shape[1] - 1)
    return word, torch.where(agrees[:, None], words, whole_sentence), agrees


def _whole(planned: Tensor, spoken: Tensor, tokens: Tensor) -> Tensor:
    """Planned durations rounded at their ends, so that no error adds up; the closing mark gets what is left."""
    planned = F.pad(planned, (1, 0), value=RATIO * LEAD + AHEAD)
    ends = (planned.cumsum(1) + 0.5 + 1e-6).long()  # halves go up, though a sum of floats may fall short of one
    durations = F.pad(ends.diff(dim=1, prepend=torch.zeros_like(ends[:, :1])), (0, 1), value=1)
    left = teacher_frames(tokens + LEAD + TAIL) - durations.sum(1) - DYING
    ending = torch.stack([spoken, spoken + 1], 1)
    return durations.scatter_add_(1, ending, torch.stack([torch.full_like(left, DYING), left], 1))


def natural(natural: Tensor, symbols: Tensor, speed: Tensor, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Durations of speech at its own pace, int64 [B, S], and how many codec frames of it to keep, int64 [B].

    What is spoken has RUN_UP more teacher frames in front and RUN_OUT more behind. natural, symbols: as in `paced`.
    speed: float [B]. before, after: int64 [B] teacher frames of silence to keep; up to three more fill a codec frame.
    """
    spoken = spoken_symbols(symbols)
    place = torch.arange(natural.shape[1], device=natural.device)
    length = (natural / speed[:, None]).clamp(min=1) * (place <= spoken[:, None])
    length[:, 0] = RUN_UP + before + math.ceil(AHEAD)
    last = place == spoken[:, None]
    sounds = torch.where(last, length.clamp(max=LAST), length).round().long().sum(1) - RUN_UP - math.floor(AHEAD)
    frames = -(-(sounds + after) * 5 // 16)
    durations = torch.where(last, length.clamp(max=LAST + RUN_OUT), length).round().long()
    left = RUN_UP + teacher_frames(frames) + RUN_OUT - durations.sum(1)
    return durations.scatter_add_(1, (spoken + 1)[:, None], left[:, None]), frames


@dataclass(frozen=True)
class Progress:
    """Which token each symbol stands in, as its word goes through its tokens evenly; all float32 [B, S]."""

    first: Tensor
    """Token at which the word begins."""
    count: Tensor
    """Tokens of the word; none for a symbol that belongs to no word."""
    start: Tensor
    """Teacher frame at which the word begins."""
    rate: Tensor
    """Tokens a teacher frame."""

    def flat(self) -> Tensor:
        """[B * S, 4]"""
        return torch.stack([self.first, self.count, self.start, self.rate], 2).float().flatten(0, 1)


def paced_progress(symbols: Tensor, words: Tensor) -> Progress:
    """Of a paced sentence, where every codec frame after the first LEAD is a token's. Arguments as in `paced`."""
    live = F.pad(torch.arange(symbols.shape[1], device=symbols.device) < spoken_symbols(symbols)[:, None], (1, 1))
    one = torch.ones_like(live, dtype=torch.float32)
    return Progress(0 * one, live * words.sum(1, keepdim=True), (RATIO * LEAD + AHEAD) * one, one / RATIO)


def natural_progress(durations: Tensor, symbols: Tensor, words: Tensor) -> Progress:
    """Of speech at its own pace with whole `durations` [B, S]. In a pause after a word no token is spoken."""
    live = torch.arange(symbols.shape[1], device=symbols.device) < spoken_symbols(symbols)[:, None]
    word, words, _ = _matched(symbols, live, words)
    starts = (durations.cumsum(1) - durations)[:, 1:-1]
    start = torch.full_like(words, torch.iinfo(torch.int64).max).scatter_reduce(1, word, starts, "amin")
    lasts = torch.zeros_like(words).scatter_add_(1, word, durations[:, 1:-1].clamp(max=int(LONGEST)) * live)
    rate = words / lasts.clamp(min=1)
    of_symbol = (column.gather(1, word) for column in (words.cumsum(1) - words, words, start, rate))
    first, count, start, rate = (F.pad(column * live, (1, 1)) for column in of_symbol)
    return Progress(first, count, start, rate)


def tokens_said(progress: Tensor, since: int) -> Tensor:
    """Token spoken in the middle of every codec frame, uint8 [B, F], or NO_TOKEN.

    progress: [B, F, 4] of the symbol heard there, as `Progress.flat` has it. since: teacher frames cut from the head.
    """
    first, count, start, rate = progress.unbind(2)
    middle = since + (torch.arange(progress.shape[1], device=progress.device) + 0.5) * RATIO + AHEAD
    place = ((middle - start) * rate).floor()
    return torch.where((place >= 0) & (place < count), first + place, NO_TOKEN).to(torch.uint8)


def sounding(symbols: Tensor) -> Tensor:
    """What each symbol sounds like: a stress mark like the symbol after it. int64 [B, S], the first 0 as it is."""
    marks = torch.isin(symbols, torch.tensor(STRESS, device=symbols.device))
    return torch.where(marks, symbols.roll(-1, 1), symbols)


def heard(owner: Tensor, slots: int, slot_samples: int) -> Tensor:
    """Symbol heard in the middle of every slot: owner int64 [B, N] by teacher frame -> [B, slots]."""
    middle = torch.arange(slots, device=owner.device) * slot_samples + slot_samples // 2
    frame = ((middle + AHEAD * SAMPLES) / SAMPLES).long()
    return owner[:, frame.clamp(max=owner.shape[1] - 1)]
