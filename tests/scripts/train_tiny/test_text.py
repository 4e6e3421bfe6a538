"""The training text: plain sentences, none of them mini-en's, and arrays whose counts mean what they say."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest

from scripts.train_tiny import text
from scripts.train_tiny.espeak import apart
from scripts.train_tiny.everyday import REFERENCE, Grammar, adjective_forms, finish, noun_forms, verb_forms
from scripts.train_tiny.sentences import Collection, Seen, Sentence, collect, plain, words
from scripts.train_tiny.tokenizer_files import CONTROL, bpe, read_merges

EXAMPLES = ("the dog ran to the house", "he never said it would be simple", "the old cat sat on a chair")
GLOSSES = ("a small animal of the house", "something that an animal ate")


@pytest.mark.parametrize(
    ("raw", "made"),
    [
        ("he ran home; she stayed", "He ran home, she stayed."),
        ("`tis a well-known fact, isn't it?", None),
        ("a well-known fact, isn't it?", "A well-known fact, isn't it?"),
        ("We left. They stayed, though!", "We left. They stayed, though!"),
        ("a river, lake, etc. in the north", None),
        ("he read 3 books today", None),
        ("the U.S. was founded", None),
        ("vitamin B is good for you", None),
        ("the BBC said so today", None),
        ("word " * 17, None),
        ("too short", None),
        ("he looked over the fence " * 3 + "and he looked again", None),
    ],
)
def test_only_plain_sentences_pass(raw: str, made: str | None) -> None:
    """Red when a limit of `plain` is lifted or a mark is no longer turned into a comma."""
    assert plain(raw) == made


def test_no_sentence_of_the_set_is_learned_and_none_that_shares_a_long_run() -> None:
    """Red when `Collection.add` no longer asks `shares`, or `shares` asks for all lengths alike."""
    kept_out = Seen(["The dog barked at the visitor, then ran back.", "Nobody answered the door."])
    collection = Collection(kept_out)
    assert not collection.add(Sentence("the dog barked at the visitor then ran back", "example"))
    assert not collection.add(Sentence("a man barked at the visitor, then slept", "example"))
    assert not collection.add(Sentence("She said that nobody answered the door.", "example"))
    assert collection.add(Sentence("A dog barked at the stranger.", "example"))
    assert collection.add(Sentence("Nobody answered a door.", "example"))


def test_a_sentence_is_taken_once() -> None:
    """Red when the key keeps marks or capitals."""
    collection = Collection(Seen([]))
    assert collection.add(Sentence("Where have they gone?", "example"))
    assert not collection.add(Sentence("where have they gone", "gloss"))
    assert len(collection.sentences) == 1


@pytest.fixture
def wordnet(tmp_path):
    """A toy database in which every word is common."""
    for part in ("noun", "verb", "adj", "adv"):
        lines = [
            f'0 n | {gloss} (of a kind); "{example}"\n' for gloss in GLOSSES for example in EXAMPLES for _ in range(3)
        ]
        (tmp_path / f"data.{part}").write_text("  1 The licence stands here, indented.\n" + "".join(lines))
    return tmp_path


@pytest.fixture
def small(monkeypatch):
    for name, count in (("EXAMPLES", 2), ("GLOSSES", 5), ("EVERYDAY", 300), ("RANDOM", 40), ("SEEN_OFTEN", 1)):
        monkeypatch.setattr(f"scripts.train_tiny.sentences.{name}", count)


def test_sources_are_mixed_and_the_seed_decides(wordnet, small) -> None:
    """Red when a source is forgotten, glosses keep their remarks, or chance comes from elsewhere than the seed."""
    sentences = collect(wordnet, [], seed=3)
    counts = Counter(sentence.source for sentence in sentences)
    assert counts == {"example": 2, "gloss": 2, "everyday": 300, "random": 40}
    assert {one.text for one in sentences if one.source == "gloss"} == {f"{g[0].upper()}{g[1:]}." for g in GLOSSES}
    assert sentences == collect(wordnet, [], seed=3)
    assert sentences != collect(wordnet, [], seed=4)


def test_every_phrase_of_the_grammar_can_be_said() -> None:
    """Red when a phrase names a list that is not there or a form that one of its words has not."""
    grammar = Grammar()
    for phrase in (phrase for phrases in grammar._phrases.values() for phrase in phrases):
        assert not re.search(r"[{}+*_]", REFERENCE.sub("", phrase)), phrase
        for passed_on, name, form in REFERENCE.findall(phrase):
            assert name in grammar._words or name in grammar._phrases, phrase
            forms = {"", "+s", "+ed", "+en", "+ing"} if passed_on else {form}
            assert all(forms <= entry.keys() for entry in grammar._words.get(name, [])), f"{name}{forms} in {phrase}"


def test_questions_and_exclamations_are_common_in_everyday_sentences() -> None:
    """Red when `KINDS` is drawn without its weights."""
    grammar, rng = Grammar(), random.Random(1)
    ends = Counter(grammar.sentence(rng)[-1] for _ in range(1000))
    assert 250 < ends["?"] < 450
    assert 100 < ends["!"] < 250


def test_forms_follow_english_spelling() -> None:
    assert [noun_forms(noun)["+s"] for noun in ("box", "city", "toy", "knife/knives")] == [
        "boxes",
        "cities",
        "toys",
        "knives",
    ]
    assert list(verb_forms("look at").values()) == ["look at", "looks at", "looked at", "looked at", "looking at"]
    assert list(verb_forms("carry").values()) == ["carry", "carries", "carried", "carried", "carrying"]
    assert list(verb_forms("bake").values()) == ["bake", "bakes", "baked", "baked", "baking"]
    assert list(adjective_forms("heavy").values()) == ["heavy", "heavier", "heaviest"]
    assert finish("a apple and a hour. a useful tool") == "An apple and an hour. A useful tool"


def test_joined_words_are_cut() -> None:
    """Red when espeak-ng's joined words stay together: their word would not be paced by its own tokens."""
    assert apart("wˈʌn ʌvðə tˈulz ɪnðɪ ˈɑɹt") == "wˈʌn ʌv ðə tˈulz ɪn ðɪ ˈɑɹt"
    assert apart("ðɛɹwˌʌz ðə lˈɑst əvə kˈInd") == "ðɛɹ wˌʌz ðə lˈɑst əv ə kˈInd"


def test_arrays_count_what_they_say() -> None:
    """Red when the closing marks count as spoken, a comma inside does not, a token's space is lost, or a
    control token's spelling is one."""
    merges = read_merges()
    texts = ["Well, we left.", "Did you assist assistants, too?"]
    data = text.arrays([[1, 2, 3], [4, 5]], texts, bpe(merges))
    assert data["phonemes"].tolist() == [1, 2, 3, 4, 5]
    assert data["tokens"].min() >= len(CONTROL)
    assert data["phoneme_counts"].tolist() == [3, 2]
    assert (data["token_counts"] - data["spoken_counts"]).tolist() == [1, 1]
    ends = np.cumsum(data["token_counts"])
    for begin, end, sentence in zip((0, *ends), ends, texts, strict=False):
        ids = data["tokens"][begin:end]
        assert bpe(merges).decode(ids.tolist(), skip_special_tokens=False) == sentence
        assert 1 + data["starts_word"][ids[1:]].sum() == len(sentence.split())


def test_mini_en_is_kept_out() -> None:
    """Red when a field of `meta.lst` is forgotten: 64 sentences and 8 clip texts."""
    texts = text.mini_en_texts()
    assert len(texts) == 72
    assert all(len(words(one)) >= 4 for one in texts)
