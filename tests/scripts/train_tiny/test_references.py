"""Sequences for cloning: whose speech stands in a context, which part of it, and what is never trained on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from scripts.train_tiny.corpus import HELD_OUT
from scripts.train_tiny.layouts import Ids, Speech
from scripts.train_tiny.pace import FIRST_SOUND, LEAD, NO_TOKEN, TAIL
from scripts.train_tiny.references import SHORTEST, Cloning
from scripts.train_tiny.talker_data import Coded, load_coded

IDS = Ids((0, 1, 2), 3, 4, 5)
VOICES = [0, 1, 24, 25]
"""Row 24 is held out."""
EACH = 6
OF_A_TRAINED_VOICE, OF_THE_HELD_VOICE = 0, 2
"""Utterances of held-out sentences."""
TOKENS, SPOKEN = 30, 29
WORD = 3
"""Tokens of every word."""


def make_coded() -> Coded:
    """Six utterances of each voice by turns, the last one of another: three are paced, the others natural with a frame
    of silence around. One sentence of the held-out voice is held out, and one of a voice that is not.
    """
    count = len(VOICES) * EACH
    paced = torch.arange(count) // len(VOICES) % 2 == 0
    frames = torch.where(paced, LEAD + SPOKEN + TAIL, 26)
    frames_at = torch.cat((torch.tensor([0]), frames.cumsum(0)))
    said = torch.full((int(frames_at[-1]),), NO_TOKEN, dtype=torch.uint8)
    labels = torch.zeros(int(frames_at[-1]), 4, dtype=torch.uint8)
    for utterance in range(count):
        head, tail = (LEAD, TAIL) if paced[utterance] else (1, 1)
        labels[frames_at[utterance] + head : frames_at[utterance + 1] - tail] = FIRST_SOUND
    voice = torch.tensor(VOICES).repeat(EACH)
    voice[-1] = VOICES[0]
    sentence = HELD_OUT + torch.arange(count)
    sentence[[OF_A_TRAINED_VOICE, OF_THE_HELD_VOICE]] = torch.tensor([5, 6])
    place = torch.arange(count * TOKENS)
    return Coded(
        speech=Speech(
            tokens=place % TOKENS, tokens_at=torch.arange(count + 1) * TOKENS, frames_at=frames_at,
            said=said, heard=len(labels),
        ),
        codes=torch.zeros(2 * len(labels), 16, dtype=torch.uint8), labels=labels,
        sentence=sentence, voice=voice, word_at=place - place % TOKENS % WORD,
        spoken=torch.full((count,), SPOKEN), paced=paced,
    )  # fmt: skip


@pytest.fixture
def cloning() -> Cloning:
    torch.manual_seed(0)
    coded = make_coded()
    return Cloning(coded, torch.randn(len(coded.voice), 8), IDS, pool=4000)


def test_quiet_frames_are_counted_at_both_ends() -> None:
    """Red when a frame of the next utterance is taken for the end of this one."""
    coded = make_coded()
    head, tail = coded.quiet()
    assert head.tolist() == torch.where(coded.paced, LEAD, 1).tolist()
    assert tail.tolist() == torch.where(coded.paced, TAIL, 1).tolist()


def test_references_are_other_utterances_of_the_voice(cloning: Cloning) -> None:
    """All of them in time, and as a vector's source too. Red when the target may be its own reference, or when places
    are counted over all voices."""
    drawn = cloning.training()
    voice, target = cloning.coded.voice, drawn.choice.target
    assert drawn.voiced_by is not None
    context = drawn.choice.reference >= 0
    paced = [(voice == row) & cloning.coded.paced & (cloning.coded.sentence >= HELD_OUT) for row in (0, 1, 25)]
    possible = sum(
        int(some.sum()) * (int((voice == row).sum()) - 1) for row, some in zip((0, 1, 25), paced, strict=True)
    )
    for others, targets in ((drawn.choice.reference[context], target[context]), (drawn.voiced_by, target)):
        assert torch.equal(voice[others], voice[targets])
        assert (others != targets).all()
        pairs = set(zip(targets.tolist(), others.tolist(), strict=True))
        assert len(pairs) == possible == 2 * 6 + 3 * 5 + 3 * 4, "every target with all others of its voice"
    differ = (drawn.voiced_by != drawn.choice.reference)[context].float().mean()
    assert 0.35 < differ < 0.45, "half, less the fifth of the draws in which both are one utterance"


def test_what_is_measured_is_never_trained_on(cloning: Cloning) -> None:
    """Red when either side forgets the voices: the held-out voice would be a reference in training."""
    held, voice = cloning.held_out(), cloning.coded.voice
    assert held.voiced_by is not None
    assert set(held.choice.target.tolist()) == {OF_THE_HELD_VOICE}
    assert set(held.by_kind()) == {"streaming", "non_streaming", "in_context", "in_context_non_streaming"}
    trained = cloning.training().choice.target
    assert 24 not in voice[trained]
    assert OF_A_TRAINED_VOICE not in trained


def test_trimmed_references_keep_all_that_sounds_and_broken_ones_end_before_a_word(cloning: Cloning) -> None:
    """Red when silence is trimmed by more than there is, or a paced reference breaks off within a word."""
    coded, choice = cloning.coded, cloning.training().choice
    kinds = set()
    for row in (choice.reference >= 0).nonzero()[:, 0].tolist():
        reference, skipped, frames, tokens = (
            int(x[row]) for x in (choice.reference, choice.skipped, choice.frames, choice.tokens)
        )
        start, end = (int(coded.speech.frames_at[reference + more]) for more in (0, 1))
        kept = coded.labels[start + skipped : start + skipped + frames]
        assert start + skipped + frames <= end
        sounding = int((kept >= FIRST_SOUND).any(1).sum())
        if tokens == TOKENS:
            assert sounding == (SPOKEN if coded.paced[reference] else 24)
        else:
            assert coded.paced[reference]
            assert tokens % WORD == 0
            assert tokens >= SHORTEST
            assert sounding == tokens == len(kept) - (LEAD - skipped)
        kinds.add((skipped, frames, tokens))
    assert len(kinds) > 60, "trims at both ends and many places to break off"


def test_a_context_whose_text_comes_too_late_is_left_out(cloning: Cloning) -> None:
    """Natural references here have 30 tokens in 24 to 26 frames: their text arrives in time only with a frame to spare.
    Red without the filter; and in the other layout all text comes first, so that nothing may be left out."""
    choice = cloning.training().choice

    def spare(some: Tensor) -> Tensor:
        return (choice.frames + LEAD - choice.tokens)[some & (choice.reference >= 0)]

    assert spare(~choice.non_streaming).min() == 0
    assert spare(choice.non_streaming).min() == -1


def test_shards_without_codes_name_the_command(tmp_path: Path) -> None:
    """Before anything is read. Red when the check is left out: then a bare file error comes, or after minutes."""
    (tmp_path / "many-00000.safetensors").touch()
    with pytest.raises(SystemExit, match=r"no many-00000\.codes\.safetensors .*encode_shards"):
        load_coded(tmp_path, tmp_path, ("many",), "cpu", heard=True)
