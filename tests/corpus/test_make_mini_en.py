"""The rules that chose mini-en, on a toy WordNet: each rule refuses what it is there for, and only that."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts" / "make_mini_en"
LICENCE = "  1 The licence stands here, indented.\n"
LEMMAS = "cat dog run watch box city small large hand_made hand make old house colour tea"
GLOSS = '00001 n | a small cat; "the old dog ran to the house"\n'


@pytest.fixture
def rules(monkeypatch) -> Iterator[ModuleType]:
    """The scripts' modules, gone again afterwards: their names are too plain to stay for other tests."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield importlib.import_module("rules")
    for name in ("rules", "wordnet"):
        sys.modules.pop(name)


@pytest.fixture
def wordnet(rules, tmp_path):
    for part in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"index.{part}").write_text(LICENCE + "".join(f"{lemma} n 1\n" for lemma in LEMMAS.split()))
        (tmp_path / f"data.{part}").write_text(LICENCE + GLOSS)
        (tmp_path / f"{part}.exc").write_text("ran run\n")
    return rules.WordNet(tmp_path)


@pytest.mark.parametrize("word", ["cat", "cats", "boxes", "watches", "cities", "ran", "making", "largest", "smaller"])
def test_forms_of_a_lemma_are_known(wordnet, word):
    assert wordnet.knows(word)


def test_other_words_are_unknown(wordnet):
    """Red when the licence in front of each file is read as lemmas."""
    assert not any(wordnet.knows(word) for word in ("licence", "1", "catty", "s", ""))


def test_examples_and_gloss_pieces_are_training_texts(wordnet):
    assert {text.strip() for text in wordnet.texts()} == {"the old dog ran to the house", "a small cat", ""}


@pytest.mark.parametrize(
    "text",
    [
        "A cat ran",
        "A cat ran.",
        "The cat ran to town on Monday.",
        "The cat ran to 3 dogs.",
        "The cat-like dog ran.",
        "The cat ran. The dog ran.",
        "The cat ran  to the dog.",
        "The" + " small" * 14 + " cats.",
    ],
)
def test_form_is_refused(rules, text):
    assert rules.wrong_form(text)


@pytest.mark.parametrize("text", ["Did I see a cat?", "The old cat, the dog, and I ran!", "The cat didn't run."])
def test_form_is_accepted(rules, text):
    assert rules.wrong_form(text) is None


@pytest.mark.parametrize("text", ["The cat ran twelve times.", "The zebra ran to me.", "It's a small cat."])
def test_word_is_refused(rules, wordnet, text):
    assert rules.uncommon_word(text, wordnet)


def test_words_are_accepted(rules, wordnet):
    assert rules.uncommon_word("The cats didn't watch us.", wordnet) is None


@pytest.mark.parametrize("text", ["The colour of tea.", "The box was handmade."])
def test_spelling_is_refused(rules, wordnet, text):
    assert rules.two_spellings(text, wordnet)


def test_spelling_is_accepted(rules, wordnet):
    assert rules.two_spellings("The small cat ran.", wordnet) is None


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("My old dog ran to the house.", True),
        ("An old dog ran to a house.", False),
        ("A small cat!", True),
        ("Is a small cat here?", False),
        ("Where is the dog?", True),
        ("The dog looked at the river.", True),
    ],
)
def test_seen_text_is_refused(rules, wordnet, text, seen):
    """Five words in a row, all words of a shorter text, or a template. Red when short texts need five words too."""
    assert bool(rules.Seen(wordnet.texts()).reason(text)) is seen
