"""The fused engine against the plain way to run the model, and the invariants of its stream (docs/design.md, section
4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from tests.engine import toys
from tests.engine.toys import (
    GREEDY,
    HOP,
    TEXTS,
    TOY,
    ToyEngine,
    assert_sound,
    request,
    requests,
    toy_prompt,
    whole_decode,
)
from tests.models.qwen3_tts.exactness import (
    GreedyTalker,
    build_prompt,
    cases,
    embedded_prompt,
    embedded_utterances,
    golden,
    toy,
)
from ttsbench.core import AudioChunk, EmitReason, FinishReason, SamplingParams, SpeechRequest, TextLayout
from ttsbench.models.qwen3_tts.prompt import Prompt
from ttsbench.models.source import EMBEDDED


@pytest.fixture
def end_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[int, int]], None]:
    return partial(toys.end_after, monkeypatch)


def test_a_batch_gives_the_codes_and_pcm_of_each_request_run_plainly() -> None:
    """Seven greedy requests over four slots, prompts cut into pieces by a small budget.

    Red if a packed row reads its neighbour's pages, if text rows are off by one frame, if the last prompt row of a
    chunk is not the one sampled from, if the repetition set outlives its slot, or if the codec keeps a former
    stream's tails.
    """
    asked = [replace(r, sampling=GREEDY) for r in requests(7)]
    heard = ToyEngine(max_num_batched_tokens=11).speak(asked)
    for one in asked:
        plain = GreedyTalker(toy(TOY), toy_prompt(one), GREEDY.repetition_penalty)
        with torch.inference_mode():
            expected = plain.utterance(one.max_frames)
        codes = np.stack(heard[one.id].codes)
        assert np.array_equal(codes, expected.numpy())
        assert np.abs(heard[one.id].pcm - whole_decode(heard[one.id].codes).numpy()).max() < 1e-4
        assert_sound(heard[one.id])


@pytest.mark.parametrize(
    "name", ["custom_voice.streaming.serena.english.plain", "base.streaming.icl_text_longer.english"]
)
def test_audio_equals_the_official_packages_end_to_end(name: str) -> None:
    """Text to PCM, reference speech in the codec's past included: 1e-4 of full scale, every seventh sample of the
    golden.

    Red if the reference frames are decoded and kept, not decoded at all, or cut a frame early.
    """
    case = next(c for c in cases() if c["name"] == name)
    frames = len(golden("prompts")[f"{name}.codes"])
    with torch.inference_mode():
        prompt = build_prompt(case)
    engine = ToyEngine(lambda _: prompt, checkpoint=case["toy"])
    sampling = replace(GREEDY, repetition_penalty=1.05)
    heard = engine.speak([request("a", sampling=sampling, max_frames=frames)])["a"]
    official = golden("prompts")[f"{name}.audio_every_7"].numpy()
    assert np.array_equal(np.stack(heard.codes), golden("prompts")[f"{name}.codes"].numpy())
    assert np.abs(heard.pcm[::7] - official).max() < 1e-4


@pytest.mark.parametrize("checkpoint", EMBEDDED)
def test_an_embedded_checkpoint_says_what_the_official_package_has_it_say(checkpoint: str) -> None:
    """Trained weights that end by themselves, all voices or ways of cloning and both text layouts in one batch: every
    code of 16 greedy utterances.

    Red if text rows are late by a frame in either layout, or if a slot keeps its former row's text.
    """
    tiny, stored = toy(checkpoint), embedded_utterances(checkpoint)
    with torch.inference_mode():
        prompts = {str(index): embedded_prompt(checkpoint, entry) for index, entry in enumerate(stored)}
    engine = ToyEngine(lambda asked: prompts[asked.id], checkpoint=checkpoint, max_num_seqs=8)
    sampling = replace(GREEDY, repetition_penalty=tiny.defaults.sampling.repetition_penalty)
    heard = engine.speak([request(name, sampling=sampling, max_frames=tiny.defaults.max_frames) for name in prompts])
    for name, entry in zip(prompts, stored, strict=True):
        assert np.array_equal(np.stack(heard[name].codes), np.array(entry["codes"])), entry["text"]
        assert heard[name].reason is FinishReason.STOP
        assert_sound(heard[name])


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_a_finish_by_length_has_exactly_its_frames(limit: int, end_after: Callable[[dict[int, int]], None]) -> None:
    """The frame made by the prefill step counts too. Red with `frames + 2 == limit` in `_emit`, or a stop test before
    it.
    """
    end_after({})
    heard = ToyEngine().speak([request("a", max_frames=limit), request("b", TEXTS[1], max_frames=limit + 1)])
    for name, frames in (("a", limit), ("b", limit + 1)):
        assert (heard[name].frames, heard[name].reason) == (frames, FinishReason.LENGTH)
        assert len(heard[name].pcm) == frames * HOP
        assert len(heard[name].chunks[-1].pcm) == HOP
        assert_sound(heard[name])


def test_the_model_length_is_a_limit_too(end_after: Callable[[dict[int, int]], None]) -> None:
    """Prompt and frames fill `max_model_len` exactly, and the end says which limit held and what was made.

    Red if the limit forgets the prompt, or the finish names the one that was asked for.
    """
    end_after({})
    rows = len(toy_prompt(request("a")).rows)
    engine = ToyEngine(max_model_len=rows + 5, block_size=1)
    heard = engine.speak([request("a", max_frames=100)])["a"]
    assert (heard.frames, heard.reason) == (5, FinishReason.LENGTH)
    finish = heard.chunks[-1].finish
    assert finish is not None
    assert (finish.frame_limit, finish.frames_generated) == (5, 5)
    engine.assert_empty()


def test_a_prompt_that_leaves_no_room_fails_alone() -> None:
    long = request("a", TEXTS[3], text_layout=TextLayout.NON_STREAMING)
    rows = len(toy_prompt(long).rows)
    heard = ToyEngine(max_model_len=rows, block_size=1).speak([long, request("b")])
    finish = heard["a"].chunks[-1].finish
    assert finish is not None
    assert (heard["a"].reason, finish.code) == (FinishReason.FAILED, "prompt_too_long")
    assert heard["b"].frames > 0


def test_end_of_speech_emits_no_frame(end_after: Callable[[dict[int, int]], None]) -> None:
    """EOS drawn at frame k leaves k frames. Red if the row that drew EOS is decoded and emitted."""
    end_after({1: 2, 2: 5})
    heard = ToyEngine().speak([request("a", seed=1), request("b", TEXTS[1], seed=2)])
    assert [(heard[n].frames, heard[n].reason) for n in "ab"] == [(2, FinishReason.STOP), (5, FinishReason.STOP)]
    for one in heard.values():
        assert_sound(one)
        assert len(one.chunks[-1].pcm) == 0


def test_no_end_before_min_frames(end_after: Callable[[dict[int, int]], None]) -> None:
    """Two frames at least, as published, even when the model draws EOS at once; 0 is a value and allows none."""
    end_after({1: 0, 2: 0})
    none = SamplingParams(min_frames=0)
    heard = ToyEngine().speak([request("a", seed=1, max_frames=4), request("b", seed=2, sampling=none)])
    assert heard["a"].frames >= 2
    assert (heard["b"].frames, heard["b"].reason) == (0, FinishReason.STOP)
    assert_sound(heard["b"])
    assert len(heard["b"].chunks) == 1


@pytest.mark.parametrize(("chunk_frames", "at_once"), [(1, False), (3, False), (3, True), (None, False), (None, True)])
def test_chunk_size_decides_when_and_never_what(chunk_frames: int | None, at_once: bool) -> None:
    """Byte-equal PCM under every policy. Red if the emitted span follows the chunk size instead of what is held."""
    asked = requests(5)
    plain = ToyEngine().speak(asked)
    heard = ToyEngine(chunk_frames=chunk_frames, first_frame_at_once=at_once).speak(asked)
    for one in asked:
        assert_sound(heard[one.id])
        assert np.array_equal(heard[one.id].pcm, plain[one.id].pcm)
        sizes = [c.frames[1] - c.frames[0] for c in heard[one.id].chunks]
        assert sizes[0] == (1 if at_once else min(chunk_frames or 999, heard[one.id].frames))
        assert all(size == chunk_frames for size in sizes[1:-1])


def test_a_chunk_says_what_it_was_to_hold_and_why_it_came(end_after: Callable[[dict[int, int]], None]) -> None:
    """Seven frames by threes, the first at once. Red if the first looks like any other, or the rest like a full one."""
    end_after({1: 7})
    heard = ToyEngine(chunk_frames=3, first_frame_at_once=True).speak([request("a", seed=1)])["a"]
    said = [(chunk.frames, chunk.chunk_target, chunk.reason) for chunk in heard.chunks]
    assert said[:3] == [
        ((0, 1), 1, EmitReason.FIRST),
        ((1, 4), 3, EmitReason.THRESHOLD),
        ((4, 7), 3, EmitReason.THRESHOLD),
    ]
    assert said[3] == ((7, 7), 3, EmitReason.FLUSH)
    assert {chunk.context_frames for chunk in heard.chunks} == {0}


def test_requests_join_and_leave_and_nothing_is_left() -> None:
    """Thirteen requests over three slots, some submitted while others run; all is free and empty afterwards."""
    engine, asked = ToyEngine(max_num_seqs=3), requests(13)
    later = asked[5:]

    def submit_more(chunk: AudioChunk) -> None:
        if later and chunk.index == 1:
            engine.submit(later.pop(0))

    heard = engine.speak(asked[:5], submit_more)
    while later:
        heard = engine.speak([later.pop(0)])
    assert sorted(heard) == sorted(r.id for r in asked)
    for one in heard.values():
        assert_sound(one)
    engine.assert_empty()


def test_the_kv_pool_is_a_limit_too(end_after: Callable[[dict[int, int]], None]) -> None:
    """A request may fill the pool and no more: 4 blocks of 8 hold its prompt and 32 - P frames. Red (it waits for ever)
    if the limit knows only the model length."""
    end_after({})
    rows = len(toy_prompt(request("a")).rows)
    engine = ToyEngine(num_kv_blocks=4)
    assert engine.speak([request("a", max_frames=100)])["a"].frames == 32 - rows
    engine.assert_empty()


def test_a_step_that_can_never_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if the loop spins in silence while nobody runs and nobody can be admitted."""
    engine = ToyEngine(num_kv_blocks=4)
    monkeypatch.setattr(engine, "_frame_limit", lambda one, rows: one.max_frames)
    engine.submit(request("a", max_frames=100))
    with pytest.raises(RuntimeError, match="1 requests wait for KV blocks"):
        list(engine.chunks())


def test_a_prompt_made_ahead_goes_with_its_request() -> None:
    """A candidate that waits for blocks has its prompt already; cancelling must drop it. Red without the clean-up."""
    engine = ToyEngine(num_kv_blocks=4)
    for name in "ab":
        engine.submit(request(name, max_frames=20, sampling=SamplingParams(min_frames=20)))
    engine.step()
    assert engine.scheduler.waiting
    engine.cancel("b")
    engine.cancel("a")
    assert len(list(engine.chunks())) == 3
    engine.assert_empty()


def test_frames_held_back_do_not_pin_the_batch() -> None:
    """Red if a held frame is a view: each would keep the PCM of all slots alive, up to the longest utterance's end."""
    engine = ToyEngine(chunk_frames=None)
    for one in requests(4, sampling=SamplingParams(min_frames=12), max_frames=12):
        engine.submit(one)
    for _ in range(3):
        engine.step()
    held = [pcm for sequence in engine.scheduler.running for pcm in sequence.held]
    assert len(held) >= 4
    assert all(pcm.base is None for pcm in held)


def test_kv_blocks_are_waited_for() -> None:
    """With blocks for one request at a time all still finish, one after the other."""
    engine = ToyEngine(max_model_len=64, num_kv_blocks=8)
    heard = engine.speak(requests(4))
    assert len(heard) == 4
    engine.assert_empty()


def test_a_prompt_that_waits_for_blocks_is_made_once() -> None:
    """Red when every step makes the prompt of the longest-waiting request anew (`FusedEngine._prompt_of`)."""
    made: list[str] = []

    def make_prompt(asked: SpeechRequest) -> Prompt:
        made.append(asked.id)
        return toy_prompt(asked)

    ToyEngine(make_prompt, max_model_len=64, num_kv_blocks=8).speak(requests(4))
    assert made == ["r0", "r1", "r2", "r3"]


def test_steps_are_counted_by_their_kind() -> None:
    """A prompt of 17 rows or so under a budget of 8 takes steps of its own; then one frame a step; a second request
    joins a running one. Red when kinds are mixed up or counted as one.
    """
    engine = ToyEngine(max_num_batched_tokens=8, max_num_seqs=2)
    first = request("a", seed=1, max_frames=6, sampling=SamplingParams(min_frames=9))
    rows = len(toy_prompt(first).rows)
    engine.speak([first])
    alone = -(-rows // 8)
    assert engine.stats()["steps"] == {"decode": 5, "mixed": 0, "prefill": alone, "replay": 0}
    engine.submit(replace(first, id="b", max_frames=12))
    for _ in range(alone + 1):
        engine.step()
    engine.submit(replace(first, id="c", max_frames=2))
    list(engine.chunks())
    steps = engine.stats()["steps"]
    assert (steps["mixed"], steps["prefill"]) == (-(-rows // 7), 2 * alone)
    assert sum(steps.values()) == 5 + alone + alone + 11


def test_an_id_in_use_is_refused_and_free_again_afterwards() -> None:
    engine = ToyEngine()
    engine.submit(request("a"))
    with pytest.raises(ValueError, match="still in use"):
        engine.submit(request("a"))
    list(engine.chunks())
    first = ToyEngine().speak([request("a", TEXTS[1])])["a"]
    again = engine.speak([request("a", TEXTS[1])])["a"]
    assert np.array_equal(again.pcm[-len(first.pcm) :], first.pcm)
