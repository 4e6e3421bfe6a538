"""Who says what: sentences and voices that no model trains on stay together and apart from the others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from scripts.train_tiny.corpus import HELD_OUT, Text
from scripts.train_tiny.kokoro import Read
from scripts.train_tiny.pace import LEAD, NO_TOKEN, SPACE, TAIL, Limits
from scripts.train_tiny.synthesize import OWN_SHARE, REFERENCE_TOKENS, Studio, Utterances, planned
from scripts.train_tiny.voices import NAMED_ROWS, OWN, is_held

SENTENCES, VOICES = 3000, 120


@pytest.fixture
def text() -> Text:
    spoken = np.random.default_rng(0).integers(8, 80, SENTENCES).astype(np.uint8)
    return Text(
        phonemes=np.zeros(SENTENCES, np.uint8), phoneme_counts=np.ones(SENTENCES, np.uint8),
        tokens=np.zeros(int(spoken.sum()), np.uint16), token_counts=spoken, spoken_counts=spoken,
        starts_word=np.zeros(1, bool),
    )  # fmt: skip


def test_held_out_sentences_are_said_by_held_out_voices_alone(text: Text) -> None:
    """Two passes and more. Red when the voices are drawn without a look at the sentence."""
    said = planned("many", text, VOICES, 9.0, seed=1)
    assert len(said) > 2 * SENTENCES
    assert np.array_equal(is_held(said.voice), said.sentence < HELD_OUT)
    assert (said.sentence[:HELD_OUT] == np.arange(HELD_OUT)).all(), "so that even a short rehearsal has some"


def test_the_teachers_own_voices_have_their_share(text: Text) -> None:
    """Red when they are as rare as any drawn voice: they are the only ones that are no invention.

    A share of 4,000 draws is known to one in a hundred and better.
    """
    said = planned("many", text, VOICES, 9.0, seed=1)
    own = said.voice[said.sentence >= HELD_OUT] < OWN
    assert own.mean() == pytest.approx(OWN_SHARE, abs=0.02)
    assert len(np.unique(said.voice)) == VOICES


def test_references_are_of_all_voices_and_of_trained_sentences(text: Text) -> None:
    """Red when held-out voices have none: what is measured on them needs references."""
    said = planned("reference", text, VOICES, 3.0, seed=1)
    assert len(np.unique(said.voice)) == VOICES
    assert said.sentence.min() >= HELD_OUT
    spoken = text.spoken_counts[said.sentence]
    assert REFERENCE_TOKENS[0] <= spoken.min() <= spoken.max() <= REFERENCE_TOKENS[1]


def test_named_voices_take_turns_and_shift_with_each_pass(text: Text) -> None:
    """Red when a sentence has the same voice in every pass."""
    said = planned("named", text, VOICES, 9.0, seed=1)
    assert said.voice[:8].tolist() == [*NAMED_ROWS, *NAMED_ROWS]
    assert said.voice[SENTENCES] == NAMED_ROWS[1]


LETTER, STOP = 43, 4


class Teacher:
    """Every symbol lasts four teacher frames, and nothing sounds."""

    def read(self, symbols: Tensor, style: Tensor) -> Read:
        rows, length = symbols.shape[0], symbols.shape[1] + 2
        return Read(torch.zeros(rows, length, 1), torch.zeros(rows, length, 1), torch.full((rows, length), 4.0))

    def speak(self, prosody: Tensor, sounds: Tensor, style: Tensor, pitch: Tensor) -> Tensor:
        return torch.zeros(prosody.shape[0], prosody.shape[1] * 600)


class OneVoice:
    def style(self, rows: Tensor, count: int) -> Tensor:
        return torch.zeros(len(rows), 256)

    def pitch(self, rows: Tensor) -> Tensor:
        return torch.ones(len(rows))


def said(kind: str) -> list[int]:
    """Tokens of the frames of one sentence: two words of five letters, with two and three tokens, and a stop."""
    studio = object.__new__(Studio)
    studio.text = Text(
        phonemes=np.array([*[LETTER] * 5, SPACE, *[LETTER] * 5, STOP], np.uint8),
        phoneme_counts=np.array([12], np.uint8),
        tokens=np.array([0, 0, 1, 0, 0, 2], np.uint16), token_counts=np.array([6], np.uint8),
        spoken_counts=np.array([5], np.uint8), starts_word=np.array([False, True, False]),
    )  # fmt: skip
    studio.device, studio.limits = torch.device("cpu"), Limits((0.1, 9.0), (0.1, 9.0))
    studio.kokoro, studio.voices = Teacher(), OneVoice()  # type: ignore[assignment]
    utterance = Utterances(np.array([0]), np.array([0]), np.array([LEAD + 5 + TAIL]))
    return [int(token) for token in studio.shard(kind, utterance, seed=3)["said"]]


def test_frames_of_both_paces_know_their_token() -> None:
    """Red when a natural reference is given the places of a paced one, one frame a token: its words last as long
    as their symbols, whatever their tokens, and its speech begins within three frames.
    """
    assert said("many") == [NO_TOKEN] * LEAD + [0, 1, 2, 3, 4] + [NO_TOKEN] * TAIL
    natural = said("reference")
    spoken = [token for token in natural if token != NO_TOKEN]
    assert natural.index(0) <= 3
    assert spoken == sorted(spoken)
    assert set(spoken) == {0, 1, 2, 3, 4}
    assert len(spoken) >= 10
    first, second = (sum((token < 2) is early for token in spoken) for early in (True, False))
    # six symbols, the space among them, and five: in frames, their ends rounded
    assert first / second == pytest.approx(6 / 5, rel=0.2)
