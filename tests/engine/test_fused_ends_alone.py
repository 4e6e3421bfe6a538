"""What goes wrong with a request, or is cancelled, ends that request alone and leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.toys import (
    TEXTS,
    TOY,
    ToyEngine,
    assert_sound,
    change_logits,
    request,
    requests,
    toy_prompt,
)
from tests.models.qwen3_tts.exactness import (
    toy,
)
from ttsbench.core import AudioChunk, FinishReason, RowError, SamplingParams, SpeechRequest
from ttsbench.kernels.draw import FirstCodeRules, Rows
from ttsbench.models.qwen3_tts.prompt import Prompt


def test_a_failing_prompt_ends_its_request_alone() -> None:
    """Red if the error reaches the caller, or the slot is taken before the prompt is made."""

    def make(one: SpeechRequest) -> Prompt:
        if one.id == "bad":
            raise RowError("reference_unreadable", "no such clip")
        return toy_prompt(one)

    engine = ToyEngine(make)
    heard = engine.speak([request("a"), request("bad"), request("c", TEXTS[1])])
    alone = ToyEngine().speak([request("a"), request("c", TEXTS[1])])
    finish = heard["bad"].chunks[0].finish
    assert finish is not None
    assert (finish.reason, finish.code, finish.detail) == (FinishReason.FAILED, "reference_unreadable", "no such clip")
    assert len(heard["bad"].chunks) == 1
    for name in "ac":
        assert np.array_equal(heard[name].pcm, alone[name].pcm)
    engine.assert_empty()


def test_a_surprise_ends_its_request_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Any error while a request is started is charged to it, with its traceback logged. Red if it reaches the caller,
    who would meet it again at every step.
    """

    def make(one: SpeechRequest) -> Prompt:
        if one.id == "bad":
            raise ZeroDivisionError("nobody thought of this")
        return toy_prompt(one)

    engine = ToyEngine(make)
    heard = engine.speak([request("a"), request("bad"), request("c", TEXTS[1])])
    finish = heard["bad"].chunks[0].finish
    assert finish is not None
    assert (finish.code, finish.detail) == ("internal", "ZeroDivisionError: nobody thought of this")
    assert "bad could not be started" in caplog.text
    assert heard["a"].reason is not FinishReason.FAILED
    assert heard["c"].reason is not FinishReason.FAILED
    engine.assert_empty()


def test_non_finite_numbers_end_their_request_alone_and_poison_nobody_later() -> None:
    """NaN in one prompt: that row fails by name, its neighbours are as if it were fine, and the next owner of its slot
    and blocks is clean. Red without the finite check (a silent WAV), or if reset leaves a ring or a tail.
    """

    def make(one: SpeechRequest) -> Prompt:
        prompt = toy_prompt(one)
        return replace(prompt, rows=prompt.rows * float("nan")) if one.id == "bad" else prompt

    engine = ToyEngine(make, max_num_seqs=2, num_kv_blocks=64)
    heard = engine.speak([request("a"), request("bad", TEXTS[1]), *requests(4)])
    clean = ToyEngine(max_num_seqs=2, num_kv_blocks=64).speak([request("a"), request("fine", TEXTS[1]), *requests(4)])
    finish = heard["bad"].chunks[-1].finish
    assert finish is not None
    assert (finish.reason, finish.code) == (FinishReason.FAILED, "non_finite")
    for one in [request("a"), *requests(4)]:
        assert np.abs(heard[one.id].pcm - clean[one.id].pcm).max() < 1e-4
    engine.assert_empty()


def test_non_finite_logits_of_the_talker_end_their_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN in codebook 0 alone: everything after it is finite. Red if only the other codebooks are checked."""

    def first(logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
        broken = (rows.seeds[rows.slots] == 7) & (rows.frames == 1)
        return logits.masked_fill(broken[:, None], float("nan"))

    change_logits(monkeypatch, first)
    heard = ToyEngine().speak([request("a", seed=7), request("b", TEXTS[1], seed=8)])
    finish = heard["a"].chunks[-1].finish
    assert finish is not None
    assert (finish.code, heard["a"].frames) == ("non_finite", 1)
    assert "logits" in finish.detail
    assert heard["b"].reason is not FinishReason.FAILED


def test_non_finite_logits_of_any_codebook_end_their_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draw from NaN is some code with finite PCM: only the logits tell. Red if codebooks 1..Q-1 go unchecked."""

    def book(number: int, logits: Tensor, rows: Rows) -> Tensor:
        broken = (rows.seeds[rows.slots] == 7) & (rows.frames == 2) & (number == 9)
        return logits.masked_fill(broken[:, None], float("nan"))

    change_logits(monkeypatch, book=book)
    heard = ToyEngine().speak([request("a", seed=7, max_frames=9), request("b", TEXTS[1], seed=8)])
    finish = heard["a"].chunks[-1].finish
    assert finish is not None
    assert (finish.code, heard["a"].frames) == ("non_finite", 2)
    assert heard["b"].reason is not FinishReason.FAILED


def test_a_code_outside_the_codebook_fails_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary may be wider than the codebooks; such a code is no frame and never becomes another one's sound."""
    outside = toy(TOY).config.first_control_id - 1
    assert outside >= toy(TOY).codec.decoder.config.codebook_size

    def first(logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
        changed = torch.full_like(logits, -1.0)
        changed[:, outside] = 1e9
        return changed

    change_logits(monkeypatch, first)
    finish = ToyEngine().speak([request("a")])["a"].chunks[-1].finish
    assert finish is not None
    assert (finish.reason, finish.code) == (FinishReason.FAILED, "invalid_code")


@pytest.mark.parametrize("when", ["waiting", "prefilling", "decoding"])
def test_cancelling_frees_everything_at_once_and_ends_once(when: str) -> None:
    """Red if the final chunk is missing or doubled, or if anything is freed a step late."""
    engine = ToyEngine(max_num_seqs=2, max_num_batched_tokens=6)
    lasting = SamplingParams(min_frames=40)
    for one in [request("a", TEXTS[3], max_frames=40, sampling=lasting), request("b", TEXTS[1]), request("c")]:
        engine.submit(one)
    target = "c" if when == "waiting" else "a"
    if when != "waiting":
        engine.step()
    if when == "decoding":
        for _ in range(8):
            engine.step()
        assert len(engine.heard["a"].codes) >= 3
    free = engine.scheduler.slots.free
    assert engine.cancel(target)
    assert engine.scheduler.slots.free == free + (when != "waiting")
    assert not engine.cancel(target)
    heard = engine.speak([])
    finals = [c for c in heard[target].chunks if c.final]
    assert len(finals) == 1
    assert heard[target].reason is FinishReason.CANCELLED
    assert_sound(heard[target])
    engine.assert_empty()


def test_cancelling_what_has_ended_changes_nothing() -> None:
    engine = ToyEngine()
    heard = engine.speak([request("a", max_frames=2)])
    assert not engine.cancel("a")
    assert not engine.cancel("never heard of")
    assert sum(c.final for c in heard["a"].chunks) == 1
    assert not list(engine.chunks())


def test_a_listener_gets_control_back_between_steps() -> None:
    """Utterances held back whole give nothing to hear for long; asked to stop, the loop ends at the next step and
    leaves
    the requests as they are. Red if `chunks` asks only after a chunk.
    """
    engine = ToyEngine(chunk_frames=None)
    engine.submit(request("a", max_frames=40, sampling=SamplingParams(min_frames=40)))
    asked = iter([False, False, True])
    assert not list(engine.chunks(lambda: next(asked, True)))
    assert 0 < len(engine.heard["a"].codes) < 4
    assert engine.speak([])["a"].frames > 4
    engine.assert_empty()


def test_cancelling_from_inside_the_loop() -> None:
    """A listener may cancel any request, its own too, while chunks are handed out."""
    engine = ToyEngine(chunk_frames=2)

    def stop(chunk: AudioChunk) -> None:
        if chunk.request_id == "r1" and chunk.index == 0:
            engine.cancel("r1")
            engine.cancel("r2")

    heard = engine.speak(requests(4, max_frames=12), stop)
    assert {n: h.reason for n, h in heard.items() if h.reason is FinishReason.CANCELLED}.keys() == {"r1", "r2"}
    for one in heard.values():
        assert_sound(one)
    engine.assert_empty()
