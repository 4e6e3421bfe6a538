"""Every prompt row in its place: the published layouts, read off as (text id, codec id) pairs.

That the embeddings are right too is compared with the official package in `test_exactness.py`. To break these: attach
the codec bos in the header, put the instruct after the role, or swap the two text layouts.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.models.qwen3_tts.released_configs import released_config
from tests.models.qwen3_tts.spelled import FRAME, rows, spelled_prompts, toy_tokenizer, trailing
from ttsbench.core import RowError, TextLayout
from ttsbench.models.qwen3_tts.prompt import Conditioning, Prompt, PromptBuilder

STREAMING, NON_STREAMING = TextLayout.STREAMING, TextLayout.NON_STREAMING
IM_START, IM_END, TTS_PAD, TTS_BOS, TTS_EOS = 151644, 151645, 151671, 151672, 151673
PAD, BOS, THINK, NOTHINK, THINK_BOS, THINK_EOS, ENGLISH, VIVIAN = 2148, 2149, 2154, 2155, 2156, 2157, 2050, 3065
X_VECTOR = torch.tensor([0, 9_999])
TOKENIZER = toy_tokenizer()
ROLE = [(IM_START, 0), (TOKENIZER.assistant, 0), (TOKENIZER.newline, 0)]


@pytest.fixture(scope="module")
def custom_voice() -> PromptBuilder:
    return spelled_prompts(released_config("1b7", "custom_voice"))


@pytest.fixture(scope="module")
def base() -> PromptBuilder:
    return spelled_prompts(released_config("1b7", "base"))


def text_of(length: int) -> tuple[str, list[int]]:
    """A text of `length` tokens, digits being one each, and its ids."""
    text = "".join(str(i % 10) for i in range(length))
    ids = TOKENIZER.encode(text)
    assert len(ids) == length
    return text, ids


def frames_of(length: int) -> Tensor:
    return torch.arange(length)[:, None].expand(length, 16)


def test_the_worked_example(custom_voice: PromptBuilder) -> None:
    """Vivian, English, streaming: the published row table, row by row."""
    text, (t0, t1, t2) = text_of(3)
    prompt = custom_voice.build(text, "english", STREAMING, Conditioning(custom_voice.named_speaker("vivian")))
    assert rows(prompt) == [
        *ROLE,
        (TTS_PAD, THINK),
        (TTS_PAD, THINK_BOS),
        (TTS_PAD, ENGLISH),
        (TTS_PAD, THINK_EOS),
        (TTS_PAD, VIVIAN),
        (TTS_BOS, PAD),
        (t0, BOS),
    ]
    assert trailing(prompt) == [t1, t2, TTS_EOS]
    assert prompt.pad.tolist() == [TTS_PAD, 0]
    assert prompt.context_codes is None


@pytest.mark.parametrize(
    ("language", "speaker", "length"),
    [("english", X_VECTOR, 9), ("auto", X_VECTOR, 8), ("english", None, 8), ("auto", None, 7)],
)
def test_header_lengths(base: PromptBuilder, language: str, speaker: Tensor | None, length: int) -> None:
    """Three role rows, then the codec strip without its bos. Auto language and no speaker each save a row."""
    text, ids = text_of(4)
    prompt = base.build(text, language, STREAMING, Conditioning(speaker))
    assert len(prompt.rows) == length + 1
    tags = [THINK, THINK_BOS, ENGLISH, THINK_EOS] if language == "english" else [NOTHINK, THINK_BOS, THINK_EOS]
    strip = [*tags, *([] if speaker is None else [9_999])]
    assert rows(prompt) == [*ROLE, *[(TTS_PAD, codec) for codec in strip], (TTS_BOS, PAD), (ids[0], BOS)]


@pytest.mark.parametrize("length", [1, 2, 7])
def test_plain_tails(base: PromptBuilder, length: int) -> None:
    text, ids = text_of(length)
    streaming = base.build(text, "auto", STREAMING, Conditioning())
    assert rows(streaming)[7:] == [(ids[0], BOS)]
    assert trailing(streaming) == [*ids[1:], TTS_EOS]
    assert len(streaming.trailing) == length
    whole = base.build(text, "auto", NON_STREAMING, Conditioning())
    assert rows(whole)[7:] == [*[(token, PAD) for token in (*ids, TTS_EOS)], (TTS_PAD, BOS)]
    assert len(whole.rows) == 7 + length + 2
    assert trailing(whole) == [TTS_PAD]


@pytest.mark.parametrize("frames", [0, 1, 4, 8, 9, 30])
def test_in_context_tails(base: PromptBuilder, frames: int) -> None:
    """4 reference ids, 5 target ids and the end make 10 text rows against R + 1 codec rows: longer, equal, shorter."""
    reference_text, reference = text_of(4)
    text, target = "98765", TOKENIZER.encode("98765")
    spoken = [*reference, *target, TTS_EOS]
    codec = [BOS, *[FRAME + i for i in range(frames)]]
    voice = Conditioning(X_VECTOR, frames_of(frames), reference_text)

    streaming = base.build(text, "english", STREAMING, voice)
    padded = spoken + [TTS_PAD] * (len(codec) - len(spoken))
    assert rows(streaming)[9:] == list(zip(padded, codec, strict=False))
    assert len(streaming.rows) == 9 + frames + 1
    assert trailing(streaming) == (spoken[frames + 1 :] or [TTS_PAD])
    assert streaming.context_codes is voice.reference_codes

    whole = base.build(text, "english", NON_STREAMING, voice)
    assert rows(whole)[9:] == [*[(token, PAD) for token in spoken], *[(TTS_PAD, code) for code in codec]]
    assert len(whole.rows) == 9 + len(spoken) + frames + 1
    assert trailing(whole) == [TTS_PAD]


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000"])
def test_text_without_tokens_charges_its_row(base: PromptBuilder, text: str) -> None:
    for voice in (Conditioning(X_VECTOR), Conditioning(X_VECTOR, frames_of(3), "the clip")):
        with pytest.raises(RowError, match="text is empty") as caught:
            base.build(text, "auto", STREAMING, voice)
        assert caught.value.code == "empty_text"


@pytest.mark.parametrize("reference_text", [None, "", " \n"])
def test_in_context_cloning_needs_a_transcript(base: PromptBuilder, reference_text: str | None) -> None:
    """Falling back to the x-vector alone would be another voice than the one asked for."""
    with pytest.raises(RowError, match="reference transcript is empty"):
        base.build("Hello", "auto", STREAMING, Conditioning(X_VECTOR, frames_of(3), reference_text))


@pytest.mark.parametrize("space", ["\n", "\n\n", " ", "\t", "\r\n"])
def test_space_around_text_changes_nothing(base: PromptBuilder, space: str) -> None:
    """A leading newline would join the template's into another token and shift every row. To break it: do not strip."""

    def build(text: str, reference: str, instruct: str) -> list[Prompt]:
        voice = Conditioning(X_VECTOR, frames_of(3), reference, instruct)
        return [base.build(text, "auto", layout, voice) for layout in TextLayout]

    def padded(text: str) -> str:
        return f"{space}{text}{space}"

    for plain, spaced in zip(
        build("Hello", "the clip", "calm"), build(padded("Hello"), padded("the clip"), padded("calm")), strict=True
    ):
        assert rows(plain) == rows(spaced)
        assert trailing(plain) == trailing(spaced)


def test_the_instruct_turn_stands_before_the_role(custom_voice: PromptBuilder) -> None:
    vivian = custom_voice.named_speaker("vivian")
    plain = custom_voice.build("Hello", "english", STREAMING, Conditioning(vivian))
    instructed = custom_voice.build("Hello", "english", STREAMING, Conditioning(vivian, instruct="Speak calmly."))
    encode = TOKENIZER.encode
    turn = [IM_START, *encode("user"), TOKENIZER.newline, *encode("Speak calmly."), IM_END, TOKENIZER.newline]
    assert rows(instructed) == [*[(token, 0) for token in turn], *rows(plain)]
    assert trailing(instructed) == trailing(plain)


@pytest.mark.parametrize("instruct", [None, "", " \n"])
def test_an_empty_instruct_is_none(custom_voice: PromptBuilder, instruct: str | None) -> None:
    prompt = custom_voice.build("Hello", "english", STREAMING, Conditioning(instruct=instruct))
    assert rows(prompt)[:3] == ROLE


def test_the_small_size_drops_instructions() -> None:
    small = spelled_prompts(released_config("0b6", "custom_voice"))
    vivian = small.named_speaker("vivian")
    plain = small.build("Hello", "english", NON_STREAMING, Conditioning(vivian))
    assert rows(small.build("Hello", "english", NON_STREAMING, Conditioning(vivian, instruct="calm"))) == rows(plain)
