"""Word-exact pacing: what it promises about starts, sums and labels, on invented durations."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scripts.train_tiny import pace

LETTER, COMMA, STOP = 43, 3, 4


def sentence(words: list[int], commas: Collection[int] = ()) -> torch.Tensor:
    """int64 [1, P]: words of so many letters, a comma behind those named, and a full stop."""
    ids: list[int] = []
    for index, letters in enumerate(words):
        ids += [*([pace.SPACE] if index else []), *([LETTER] * letters), *([COMMA] if index in commas else [])]
    return torch.tensor([[*ids, STOP]])


def durations_like(symbols: torch.Tensor, seed: int) -> torch.Tensor:
    """Natural teacher frames [1, P + 2], pauses among them."""
    random = np.random.default_rng(seed)
    return torch.from_numpy(random.gamma(2.0, 1.5, (1, symbols.shape[1] + 2)).astype(np.float32))


sentences = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6), st.booleans()), min_size=1, max_size=14)
"""Letters and tokens of every word, and whether a comma follows."""


@given(sentences, st.integers(0, 1000))
def test_every_word_starts_on_its_own_token(words: list[tuple[int, int, bool]], seed: int) -> None:
    """Heard, that is: a symbol sounds AHEAD frames early. Red when a space belongs to the word behind it, when
    durations are rounded one by one (the error adds up), or when AHEAD is forgotten in the lead."""
    symbols = sentence([letters for letters, _, _ in words], {i for i, word in enumerate(words[:-1]) if word[2]})
    tokens = torch.tensor([[count for _, count, _ in words]])
    plan = pace.paced(durations_like(symbols, seed), symbols, tokens)
    assert bool(plan.agrees)
    starts = torch.cat([torch.zeros(1, dtype=torch.long), plan.durations[0].cumsum(0)])[1:-2]
    first_symbol = [0, *((symbols[0] == pace.SPACE).nonzero()[:, 0] + 1).tolist()]
    heard_at = starts[first_symbol] - pace.AHEAD
    on_grid = (pace.LEAD + tokens[0].cumsum(0) - tokens[0]) * pace.RATIO
    # A start is a whole teacher frame: half of one is as near as it can be.
    assert (heard_at - on_grid).abs().max() <= 0.5 + 1e-5


def tokens_of(durations: torch.Tensor, progress: pace.Progress, cut: int, frames: int) -> list[int]:
    """Token said in each codec frame of one sentence, `cut` teacher frames into its sound."""
    owner = torch.arange(durations.shape[1]).repeat_interleave(durations[0])[None, cut:]
    heard = progress.flat()[pace.heard(owner, frames, int(pace.RATIO * pace.SAMPLES))]
    return [int(token) for token in pace.tokens_said(heard, cut)[0]]


@given(sentences, st.integers(0, 1000))
def test_a_paced_frame_says_its_own_token(words: list[tuple[int, int, bool]], seed: int) -> None:
    """Silence says none. Red when the lead is forgotten, or the last sound's dying is counted to its word."""
    symbols = sentence([letters for letters, _, _ in words])
    tokens = torch.tensor([[count for _, count, _ in words]])
    durations = pace.paced(durations_like(symbols, seed), symbols, tokens).durations
    spoken = int(tokens.sum())
    said = tokens_of(durations, pace.paced_progress(symbols, tokens), 0, pace.LEAD + spoken + pace.TAIL)
    assert said == [pace.NO_TOKEN] * pace.LEAD + list(range(spoken)) + [pace.NO_TOKEN] * pace.TAIL


def test_a_natural_word_goes_through_its_tokens_evenly_and_says_none_in_its_pause() -> None:
    """Words of 2 and 1 tokens; the first lasts 16 teacher frames, five codec frames, and a pause of as many follows.

    Red when the pause slows its word down, when the second word counts from 0, or when what was cut from the head is
    not counted.
    """
    symbols = torch.tensor([[LETTER, LETTER, LETTER, COMMA, pace.SPACE, LETTER, STOP]])
    before, cut = 8 + 16 + 3, 8  # the word is heard from 24.5 on: 5.16 codec frames after the cut
    durations = torch.tensor([[before, 6, 4, 6, 16, 0, 6, 3, 20]])
    progress = pace.natural_progress(durations, symbols, torch.tensor([[2, 1, 0]]))
    said = tokens_of(durations, progress, cut, 18)
    # LONGEST lets the comma have 6 of its 16 frames: 22 for two tokens, 3.4 codec frames each
    none = [pace.NO_TOKEN]
    assert said == none * 5 + [0] * 4 + [1] * 3 + none * 3 + [2] * 2 + none


@given(sentences, st.integers(0, 1000))
def test_a_paced_sentence_is_lead_tokens_and_tail(words: list[tuple[int, int, bool]], seed: int) -> None:
    """No symbol lasts less than nothing, and all fill the frames to the end. Red when the tail is a constant."""
    symbols = sentence([letters for letters, _, _ in words])
    tokens = torch.tensor([[count for _, count, _ in words]])
    durations = pace.paced(durations_like(symbols, seed), symbols, tokens).durations
    frames = pace.LEAD + int(tokens.sum()) + pace.TAIL
    assert int(durations.min()) >= 0
    assert int(durations.sum()) == int(np.ceil(round(frames * pace.RATIO, 6)))


def test_words_that_do_not_match_the_text_are_scaled_as_one() -> None:
    """Three words of symbols, two of text. Red when the index of the third word reaches behind the text's words."""
    symbols = sentence([4, 4, 4])
    plan = pace.paced(torch.full((1, symbols.shape[1] + 2), 2.0), symbols, torch.tensor([[5, 3, 0]]))
    assert not bool(plan.agrees)
    inside = plan.durations[0, 1 : 1 + 14].double()
    inside[-1] -= pace.DYING
    assert float(inside.sum()) == pytest.approx(8 * pace.RATIO, abs=1)  # both its ends are rounded
    assert float(inside.max() - inside.min()) <= 1  # equal symbols: rounding alone tells them apart


def test_a_pause_does_not_eat_its_word() -> None:
    """A letter before a pause lasts the pause too; capped, it leaves the word's others room. Red without LAST."""
    symbols = sentence([3])
    natural = torch.tensor([[10.0, 2, 2, 20, 6, 1]])
    durations = pace.paced(natural, symbols, torch.tensor([[3]])).durations[0]
    assert durations[1:4].tolist() == [2, 2, 5 + pace.DYING]  # 2.4, 2.4 and 4.8 from 18.5 on, their ends rounded


@pytest.mark.parametrize(("last", "kept"), [(3, True), (40, False)])
def test_a_word_far_from_its_natural_pace_is_out_of_bounds(last: int, kept: bool) -> None:
    """Red when the bounds look at the sentence alone, or at places where there is no word."""
    symbols = sentence([4, 4])
    plan = pace.paced(torch.full((1, symbols.shape[1] + 2), 2.0), symbols, torch.tensor([[3, last, 0, 0]]))
    assert bool(plan.within(pace.Limits(sentence=(0.1, 10.0)))) is kept


def test_tokens_are_counted_by_word() -> None:
    """The first token starts a word even without a space; tokens that are not spoken count nowhere."""
    starts = torch.tensor([[False, False, True, True, False, True]])
    assert pace.word_tokens(starts, torch.tensor([5])).tolist() == [[2, 1, 2, 0, 0, 0]]


def test_natural_speech_keeps_its_proportions_and_ends_in_silence() -> None:
    """Red when the pause in the last letter counts as speech, or when a run-up or run-out is left in the frames."""
    symbols = sentence([3, 2])
    given_frames = torch.tensor([[12.0, 2, 4, 3, 2, 4, 14, 8, 1]])
    durations, frames = pace.natural(given_frames, symbols, torch.tensor([1.0]), torch.tensor([4]), torch.tensor([5]))
    assert durations[0, :7].tolist() == [pace.RUN_UP + 4 + 3, 2, 4, 3, 2, 4, 14]
    assert durations.sum(1).tolist() == (pace.RUN_UP + pace.teacher_frames(frames) + pace.RUN_OUT).tolist()
    sound_ends = float(durations[0, :6].sum()) + pace.LAST - pace.AHEAD - pace.RUN_UP
    assert 5 <= int(pace.teacher_frames(frames)) - sound_ends < 5 + 1 + 4  # a codec frame is filled up: four at most


def test_labels_tell_what_is_heard() -> None:
    """Middles of 20 ms slots, AHEAD frames on. Red when labels are read where the symbol lies."""
    owner = torch.tensor([[0] * 4 + [1] * 2 + [2] * 5])
    # the slots' middles, at 10, 30, 50, ... ms, lie 0.4, 1.2, 2.0, ... teacher frames in; 2.5 on: 2.9, 3.7, 4.5, ...
    assert pace.heard(owner, 6, 480).tolist() == [[0, 0, 1, 1, 2, 2]]


def test_a_stress_mark_sounds_like_its_vowel() -> None:
    assert pace.sounding(torch.tensor([[0, 44, 156, 57, 0]])).tolist() == [[0, 44, 57, 57, 0]]
