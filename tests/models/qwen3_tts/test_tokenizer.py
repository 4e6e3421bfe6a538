"""Token ids against the official package's, and one divergence on purpose: text never becomes a control token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.models.qwen3_tts.exactness import GOLDEN
from tests.models.qwen3_tts.spelled import rows, spelled_prompts, toy_tokenizer
from ttsbench.assets import asset_folder
from ttsbench.core import InvalidInput, RowError, TextLayout
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.prompt import Conditioning
from ttsbench.models.qwen3_tts.tokenizer import TextTokenizer

CASES: list[dict[str, Any]] = json.loads((GOLDEN / "tokens.json").read_text(encoding="utf-8"))
TOY: dict[str, Any] = json.loads((GOLDEN / "toy-voice-design" / "config.json").read_text(encoding="utf-8"))
TEXT_IDS = Qwen3TTSConfig.from_dict(TOY).text
CONTROL_IDS = {TEXT_IDS.im_start, TEXT_IDS.im_end, TEXT_IDS.tts_pad, TEXT_IDS.tts_bos, TEXT_IDS.tts_eos}
CONTROL_STRINGS = ("<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>", "<|endoftext|>")

ORDINARY = [case for case in CASES if not any(word in case["text"] for word in CONTROL_STRINGS)]
SPOKEN = [case for case in ORDINARY if case["text"] and case["text"] == case["text"].strip()]


def label(case: dict[str, Any]) -> str:
    return ascii(case["text"])


@pytest.mark.parametrize("case", ORDINARY, ids=label)
@pytest.mark.parametrize(("split", "key"), [("qwen2", "ids"), ("mistral", "mistral_split_ids")])
def test_plain_ids_equal_the_official_ones(case: dict[str, Any], split: str, key: str) -> None:
    """Text as it stands, space included, under both splits. To break it: swap the splits, or drop NFC."""
    assert toy_tokenizer(split).encode(case["text"]) == case[key]


@pytest.mark.parametrize(
    ("split", "text", "expected"),
    [
        ("qwen2", "can't IT'Sx", ["can", "'t", " IT", "'S", "x"]),
        ("qwen2", "ab 123", ["ab", " ", "1", "2", "3"]),
        ("qwen2", "HelloWorld", ["HelloWorld"]),
        ("qwen2", "and/or //\n/x", ["and", "/or", " //\n", "/x"]),
        ("qwen2", "a \n  b  ", ["a", " \n", " ", " b", "  "]),
        ("mistral", "can't IT'Sx", ["can", "'t", " IT", "'Sx"]),
        ("mistral", "ab 123", ["ab", " ", "1", "2", "3"]),
        ("mistral", "HelloWorld XMLHttp", ["Hello", "World", " XMLHttp"]),
        ("mistral", "and/or //\n/x", ["and", "/or", " //\n/", "x"]),
        ("mistral", "a \n  b  ", ["a", " \n", " ", " b", "  "]),
    ],
)
def test_splits_cut_text_as_defined(split: str, text: str, expected: list[str]) -> None:
    """Worked out by hand, since the toy's few merges cannot tell every branch of the expressions apart."""
    before = toy_tokenizer(split)._bpe.pre_tokenizer
    assert before is not None
    assert [text[start:end] for _, (start, end) in before.pre_tokenize_str(text)] == expected


def test_the_goldens_tell_the_splits_apart() -> None:
    assert any(case["ids"] != case["mistral_split_ids"] for case in ORDINARY)


@pytest.mark.parametrize("case", SPOKEN, ids=label)
def test_templates_built_from_pieces_equal_the_official_ones(case: dict[str, Any]) -> None:
    """The package tokenises a whole template and cuts it; ours joins pieces. Both must meet on every stripped text."""
    prompts = spelled_prompts(TOY)
    voice = Conditioning(instruct=case["text"])
    prompt = prompts.build(case["text"], "auto", TextLayout.NON_STREAMING, voice)
    ids = [text for text, _ in rows(prompt)]
    turn = len(case["instruct_ids"])
    assert ids[:turn] == case["instruct_ids"]
    header, spoken = ids[turn : turn + 7], ids[turn + 7 : -1]
    assert header[:3] == case["assistant_ids"][:3] == case["reference_ids"][:3]
    assert spoken == [*case["assistant_ids"][3:-5], TEXT_IDS.tts_eos]
    assert spoken == [*case["reference_ids"][3:-2], TEXT_IDS.tts_eos]


@given(st.text(max_size=20))
@example("\u0301 starts with an accent")
@example("...\u2028x")
def test_stripped_text_never_joins_the_template(text: str) -> None:
    """Why templates may be built from pieces: behind "assistant" and a newline, stripped text keeps its own tokens."""
    tokenizer = toy_tokenizer()
    text = text.strip()
    assert tokenizer.encode(f"assistant\n{text}") == [tokenizer.assistant, tokenizer.newline, *tokenizer.encode(text)]


def test_a_leading_newline_does_join_the_template() -> None:
    """The reason for stripping. Were this to hold, every fixed position behind the role would shift."""
    tokenizer = toy_tokenizer()
    assert tokenizer.encode("assistant\n\nHello")[:2] != [tokenizer.assistant, tokenizer.newline]


@pytest.mark.parametrize("word", CONTROL_STRINGS)
def test_control_strings_in_text_are_spelled_out(word: str) -> None:
    """A divergence on purpose: the official package takes them as control tokens, so a text could end its own turn.

    To break it: register the added tokens with the tokenizer.
    """
    ids = toy_tokenizer().encode(f"one {word} two")
    assert not CONTROL_IDS & set(ids)
    assert max(ids) < 384  # the toy's vocabulary without its added tokens


def test_the_official_ids_of_control_strings_are_another_thing() -> None:
    (case,) = (case for case in CASES if case not in ORDINARY)
    assert CONTROL_IDS & set(case["ids"])
    assert toy_tokenizer().encode(case["text"]) != case["ids"]


@pytest.mark.parametrize("split", ["qwen2", "mistral"])
def test_both_file_forms_give_the_same_ids(tmp_path: Path, split: str) -> None:
    """`tokenizer.json` alone against vocab and merges, for the embedded checkpoint."""
    tiny = asset_folder("tiny")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((tiny / name).read_bytes())
    published, packed = TextTokenizer.from_folder(tiny, split), TextTokenizer.from_folder(tmp_path, split)
    assert (published.assistant, published.newline) == (packed.assistant, packed.newline)
    for case in CASES:
        assert published.encode(case["text"]) == packed.encode(case["text"])


def test_packed_merges_may_be_strings_or_pairs(tmp_path: Path) -> None:
    toy = GOLDEN / "toy-base"
    merges = [line for line in (toy / "merges.txt").read_text(encoding="utf-8").split("\n")[1:] if line]
    vocab = json.loads((toy / "vocab.json").read_text(encoding="utf-8"))
    for form in (merges, [merge.split(" ") for merge in merges]):
        (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab, "merges": form}}))
        packed = TextTokenizer.from_folder(tmp_path)
        assert all(packed.encode(case["text"]) == case["ids"] for case in ORDINARY)


def test_a_folder_without_a_tokenizer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"expected vocab\.json and merges\.txt, or tokenizer\.json, got neither"):
        TextTokenizer.from_folder(tmp_path)
    (tmp_path / "vocab.json").write_text("{}")
    with pytest.raises(InvalidInput, match="got neither"):
        TextTokenizer.from_folder(tmp_path)


def test_an_unknown_split_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="tokenizer split: expected qwen2 or mistral, got 'gpt2'"):
        toy_tokenizer("gpt2")


def toy_files(folder: Path, vocab: dict[str, Any] | None = None, merges: str = "") -> Path:
    """The toy's tokenizer with another vocabulary or more merges."""
    toy = GOLDEN / "toy-base"
    whole = json.loads((toy / "vocab.json").read_text(encoding="utf-8"))
    (folder / "vocab.json").write_text(json.dumps(whole if vocab is None else vocab), encoding="utf-8")
    known = (toy / "merges.txt").read_text(encoding="utf-8")
    (folder / "merges.txt").write_text(f"{known}{merges}", encoding="utf-8")
    return folder


@pytest.mark.parametrize("line", ["lonely", "three part merge", "unknown pieces"])
def test_merges_that_do_not_fit_the_vocabulary_are_an_error(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidInput, match="a vocabulary and merges that fit"):
        TextTokenizer.from_folder(toy_files(tmp_path, merges=line))


def test_a_vocabulary_without_every_byte_is_an_error(tmp_path: Path) -> None:
    """BPE drops what it has no token for, without a word: an "a" would not be spoken."""
    vocab = json.loads((GOLDEN / "toy-base" / "vocab.json").read_text(encoding="utf-8"))
    del vocab["a"]
    with pytest.raises(InvalidInput, match="all 256 byte tokens in the vocabulary, got 1 of them"):
        TextTokenizer.from_folder(toy_files(tmp_path, vocab))


def test_a_packed_file_without_a_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab": {}}}')
    with pytest.raises(InvalidInput, match=r"tokenizer\.json: model: merges: expected list, got nothing"):
        TextTokenizer.from_folder(tmp_path)


def test_the_templates_pieces_must_be_single_tokens(tmp_path: Path) -> None:
    """Bytes alone, without a merge or an added token, spell "assistant" in nine pieces."""
    (toy_files(tmp_path) / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(InvalidInput, match="one token for 'assistant', got 9 tokens"):
        TextTokenizer.from_folder(tmp_path)


def test_text_that_is_no_unicode_charges_its_row() -> None:
    with pytest.raises(RowError, match="half of a surrogate pair") as caught:
        toy_tokenizer().encode("broken \ud800")
    assert caught.value.code == "invalid_text"
