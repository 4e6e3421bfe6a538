"""The text vocabulary: merges that fit the teacher's pace, in files that every reader understands alike."""

from __future__ import annotations

import math

import pytest
from tokenizers import Tokenizer

from scripts.train_tiny.tokenizer_files import CONTROL, bpe, read_merges, vocabulary, write_tokenizer
from scripts.train_tiny.vocabulary import Word, choose, closer, merged, more_frequent, spread, word_types
from ttsbench.models.qwen3_tts.tokenizer import TextTokenizer

SENTENCES = (
    "We don't know, do we?",
    "Well-known facts. Aren't they?",
    "I've seen twenty-one geese!",
)


def test_a_merge_joins_pairs_from_the_left() -> None:
    assert merged(list("aaab"), ("a", "a")) == ["aa", "a", "b"]
    assert merged(["a", "b", "ab"], ("a", "b")) == ["ab", "ab"]


def test_words_are_cut_as_the_tokenizer_cuts_them() -> None:
    """Red when a merge could cross an apostrophe or swallow a comma: the tokenizer would never use it."""
    (word,) = word_types({" don't,": [2.0, 2.0]})
    assert word.pieces == [["Ġ", "d", "o", "n"], ["'", "t"], [","]]
    assert (word.heard, word.log_frames, word.square) == (2, math.log(2), 0)


def toy() -> list[Word]:
    """`ough` is frequent and short; `ing` is more frequent and already as long as its letters."""
    return word_types({" though": [2.0] * 3, " sing": [5.0] * 9})


def test_merges_bring_tokens_to_natural_lengths() -> None:
    """Red when the gain is the count (then " s", "in" come first) or merges that hurt are taken."""
    words = toy()
    merges = list(choose(words, closer, smallest=1e-6, most=50))
    assert [word.tokens for word in words] == [2, 5]
    assert all("i" not in left + right for left, right in merges)
    assert sum(word.misfit(word.tokens) for word in words) == pytest.approx(0, abs=1e-9)
    assert spread(words) == pytest.approx((0, 0), abs=1e-6)


def test_the_usual_merges_follow_frequency() -> None:
    """The comparison that is reported: red when it is fitted as well."""
    first = next(choose(toy(), more_frequent, smallest=1, most=1))
    assert set("".join(first)) <= set("Ġsing")


def test_the_chosen_segmentation_is_the_tokenizers() -> None:
    """The choice assumes that a later merge never changes what the earlier ones made: red when it is not appended."""
    words = word_types(
        {f" {spelling}": [2.0] for spelling in ("though", "thought", "through", "trough", "bough", "ought")}
    )
    merges = list(choose(words, closer, smallest=1e-6, most=50))
    tokenizer = bpe(merges)
    for word in words:
        ((tokens),) = word.pieces
        assert tokenizer.encode("".join(tokens).replace("Ġ", " ")).tokens == tokens


def test_ids_are_control_tokens_then_bytes_then_merges() -> None:
    """Red when an id moves: checkpoints store ids, not tokens."""
    known = vocabulary([("t", "h"), ("th", "e")])
    assert [known[token] for token in CONTROL] == list(range(6))
    assert (known["!"], known["a"], known["Ċ"], known["Ġ"], known["Ń"], known["th"], known["the"]) == (
        *(6, 70, 204, 226, 261),
        *(262, 263),
    )


def test_every_reader_gives_the_same_ids(tmp_path) -> None:
    """`vocab.json` with `merges.txt`, and `tokenizer.json`: red when their pre-tokenizers or orders differ."""
    write_tokenizer(tmp_path, read_merges())
    ours = TextTokenizer.from_folder(tmp_path)
    packed = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for sentence in SENTENCES:
        assert ours.encode(sentence) == packed.encode(sentence).ids
        assert packed.decode(ours.encode(sentence)) == sentence
    assert (ours.assistant, ours.newline) == (2, 204)
    assert packed.encode("<|im_start|>assistant\n").ids == [0, 2, 204]


def test_ranks_decide_between_merges(tmp_path) -> None:
    """Red when the files list the merges in another order than they were chosen in."""
    write_tokenizer(tmp_path, [("a", "b"), ("b", "c")])
    assert TextTokenizer.from_folder(tmp_path).encode("abc") == [262, 72]
    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("abc").ids == [262, 72]


def test_chosen_merges_keep_to_words_and_to_what_is_there() -> None:
    """Red when `merges.txt` was edited by hand: a pair of unknown tokens, a repeated one, a space inside a token."""
    known = set(vocabulary([]))
    for left, right in read_merges():
        assert {left, right} <= known
        assert left + right not in known
        assert "Ġ" not in right
        known.add(left + right)
