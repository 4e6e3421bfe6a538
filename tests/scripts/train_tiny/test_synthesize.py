"""Who says what: sentences and voices that no model trains on stay together and apart from the others."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.train_tiny.corpus import HELD_OUT, Text
from scripts.train_tiny.synthesize import OWN_SHARE, REFERENCE_TOKENS, planned
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
