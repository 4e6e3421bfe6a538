"""The fused engine on a CUDA device: eager and captured steps say what the CPU says, and a graph is what it must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.toys import (
    GREEDY,
    HOP,
    TEXTS,
    Heard,
    ToyEngine,
    assert_sound,
    change_logits,
    end_after,
    no_waiting,
    noise_decides,
    request,
    requests,
    toy_prompt,
)
from ttsbench.core import AudioChunk, DrawParams, FinishReason, SamplingParams, SpeechRequest, TextLayout
from ttsbench.engine import attention
from ttsbench.engine.buckets import Buckets
from ttsbench.engine.graphs import Graphs, Key
from ttsbench.engine.program import StepProgram
from ttsbench.engine.rows import Scratch
from ttsbench.kernels.attention import Heads, KVRows, paged_attention
from ttsbench.kernels.compilations import compilations
from ttsbench.kernels.draw import FirstCodeRules, Rows
from ttsbench.models.qwen3_tts.prompt import Prompt

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("full_float32")]

LASTING = SamplingParams(min_frames=99)
SETTINGS = (
    SamplingParams(),
    GREEDY,
    SamplingParams(DrawParams(top_k=0), DrawParams(top_k=0, top_p=0.8)),
    SamplingParams(DrawParams(top_p=0.6, temperature=1.4), DrawParams(top_k=3), repetition_penalty=1.3),
    SamplingParams(DrawParams(top_k=5, temperature=0.4), DrawParams(do_sample=False), min_frames=0),
)
SAMPLED = [replace(one, sampling=SETTINGS[i % len(SETTINGS)]) for i, one in enumerate(requests(11))]
SAMPLED[3] = replace(SAMPLED[3], text_layout=TextLayout.NON_STREAMING)
"""Other texts, seeds, lengths and settings, more than there are slots, one prompt much longer than the others."""


def on_gpu(**options: Any) -> ToyEngine:
    """Small budgets have few graphs to capture, and cut prompts into pieces."""
    return ToyEngine(device="cuda", **{"max_num_batched_tokens": 48, **options})


@cache
def graphs() -> ToyEngine:
    """One engine for all tests that leave it as it is; everything in a request is the request's own."""
    return on_gpu()


def speak(engine: ToyEngine, asked: list[SpeechRequest]) -> dict[str, Heard]:
    heard = engine.speak(asked)
    engine.heard = {}
    engine.assert_empty()
    return heard


@cache
def on_cpu() -> dict[str, Heard]:
    return ToyEngine(max_num_batched_tokens=48).speak(SAMPLED)


def assert_same(heard: dict[str, Heard], expected: dict[str, Heard]) -> None:
    """Equal codes, frames and ends; PCM to 1e-4 of full scale, which is float32 sums in another order."""
    assert heard.keys() == expected.keys()
    for name, one in heard.items():
        assert_sound(one)
        assert one.reason is expected[name].reason
        assert np.array_equal(one.codes, expected[name].codes), name
        assert np.abs(one.pcm - expected[name].pcm).max(initial=0) < 1e-4, name


@pytest.mark.parametrize(("steps_behind", "slots"), [(0, 4), (1, 4), (1, 18)])
def test_eager_steps_give_the_codes_and_pcm_of_the_cpu(steps_behind: int, slots: int) -> None:
    """Float32 without TF32. Red with any kernel, stream or hand-over that is wrong, or when the warm-up is padded."""
    engine = on_gpu(enforce_eager=True, steps_behind=steps_behind, max_num_seqs=slots)
    assert_same(speak(engine, SAMPLED), on_cpu())


def test_captured_steps_give_the_codes_and_pcm_of_the_cpu() -> None:
    """Red if a graph reads what was current at its capture: a slot number, a setting, a seed, a pointer."""
    assert_same(speak(graphs(), SAMPLED), on_cpu())
    assert_same(speak(graphs(), SAMPLED[::-1]), on_cpu())


@pytest.mark.parametrize("slots", [1, 11])
def test_capacity_one_and_a_full_largest_bucket_say_the_same(slots: int) -> None:
    """Eleven at once fill the largest bucket, in which no row is padding. Red if that bucket is never captured, or if
    a batch of one takes another path.
    """
    engine = on_gpu(max_num_seqs=slots, max_num_batched_tokens=48)
    assert_same(speak(engine, SAMPLED), on_cpu())
    assert engine.runner.graphs.replays["decode", slots] > 0


def test_batch_invariant_is_byte_equal() -> None:
    """One slot or four, this order or another. Red if a bucket's size reaches a sum: try `planned` as the rows that
    there are.
    """
    first = speak(on_gpu(max_num_seqs=1, batch_invariant=True, max_num_batched_tokens=64), SAMPLED)
    other = speak(on_gpu(max_num_seqs=4, batch_invariant=True, max_num_batched_tokens=96), SAMPLED[::-1])
    for name, one in first.items():
        assert np.array_equal(one.codes, other[name].codes)
        assert one.pcm.tobytes() == other[name].pcm.tobytes()


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "graphs"])
def test_n_frames_are_n_times_1920_samples(eager: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By length and by end of speech, at 0, 1, 2, 3 and where the model length is full. Red if the frame that was under
    way when the end was seen is emitted.
    """
    end_after(monkeypatch, {i: i for i in range(4)}, "cuda")
    free = SamplingParams(min_frames=0)
    engine = on_gpu(enforce_eager=eager, max_num_seqs=3, max_model_len=64)
    asked = [request(f"stop{i}", TEXTS[i], seed=i, max_frames=9, sampling=free) for i in range(4)]
    asked += [request(f"length{i}", TEXTS[i], seed=10 + i, max_frames=i) for i in (1, 2, 3)]
    asked += [request("full", seed=20, max_frames=999)]
    heard = speak(engine, asked)
    room = 64 - len(toy_prompt(asked[-1]).rows)
    frames = {f"stop{i}": i for i in range(4)} | {f"length{i}": i for i in (1, 2, 3)} | {"full": room}
    for name, count in frames.items():
        assert_sound(heard[name])
        assert (heard[name].frames, len(heard[name].pcm), len(heard[name].codes)) == (count, count * HOP, count)
        assert heard[name].reason is (FinishReason.STOP if name.startswith("stop") else FinishReason.LENGTH)


def test_delivered_pcm_belongs_to_its_receiver() -> None:
    """Red if a chunk is a view of pinned memory, which a later step overwrites."""
    engine, kept = graphs(), list[tuple[np.ndarray, bytes]]()
    landings = [landing.numpy() for landing in engine.runner.landings]

    def on_chunk(chunk: AudioChunk) -> None:
        assert not any(np.shares_memory(chunk.pcm, landing) for landing in landings)
        kept.append((chunk.pcm, chunk.pcm.tobytes()))

    engine.speak(requests(6), on_chunk)
    engine.heard = {}
    assert all(pcm.tobytes() == then for pcm, then in kept)


def test_cancelled_at_any_moment_with_id_and_slot_in_use_again_at_once() -> None:
    """The new owner of id, slot and blocks is as if alone, and so is the neighbour. Red if the slot is made new before
    the frame that its former owner was asked for, on either stream.
    """
    old = request("a", TEXTS[3], seed=5, max_frames=20, sampling=LASTING)
    new = request("a", TEXTS[1], seed=6, max_frames=5, sampling=LASTING)
    other = request("b", TEXTS[5], seed=7, max_frames=9, sampling=LASTING)
    alone = {one.id: speak(graphs(), [one])[one.id] for one in (new, other)}
    for moment in range(10):
        engine, heard, second = graphs(), [0], Heard()

        def on_chunk(chunk: AudioChunk, heard: list[int] = heard, moment: int = moment, second: Heard = second) -> None:
            if heard[0] == moment:
                assert graphs().cancel("a")
                graphs().submit(new)
            heard[0] += 1
            if chunk.request_id == "a" and heard[0] > moment + 1 and (second.chunks or chunk.index == 0):
                second.chunks.append(chunk)

        both = engine.speak([old, other], on_chunk)
        engine.heard = {}
        engine.assert_empty()
        for got, expected in ((second, alone["a"]), (both["b"], alone["b"])):
            assert_sound(got)
            assert np.abs(got.pcm - expected.pcm).max() < 1e-4


# What a graph must be.


@dataclass
class Captured:
    """What was asked of the attention kernel while each part was captured: rows and query length of every call."""

    calls: dict[Key, set[tuple[int, int]]] = field(default_factory=dict)
    _key: Key | None = None

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        capture, inner = Graphs.capture, paged_attention

        def captured(graphs: Graphs, key: Key, part: Callable[[], None]) -> None:
            self._key = key
            self.calls.setdefault(key, set())
            capture(graphs, key, part)
            self._key = None

        def called(
            qkv: Tensor, heads: Heads, rows: KVRows, keys: Tensor, values: Tensor, query_len: int
        ) -> Tensor:  # fmt: skip
            if self._key is not None:
                self.calls[self._key].add((len(qkv), query_len))
            return inner(qkv, heads, rows, keys, values, query_len)

        monkeypatch.setattr(Graphs, "capture", captured)
        monkeypatch.setattr(attention, "paged_attention", called)

    def check(self, capacity: int, budget: int) -> None:
        """All sizes up to the capacity have their graphs; of decode the query length is 1, of mixed the worst case. The
        first two positions of the code predictor go in together: two rows for each of its slots.
        """
        made = Buckets.of(capacity, budget, padded=True)
        parts = {(part, size) for part in ("decode", "frame") for size in made.frames}
        parts |= {("codec", size) for size in made.codec} | {("mixed", size) for size in made.tokens}
        assert self.calls.keys() == parts
        for size in made.frames:
            for part in ("decode", "frame"):
                assert self.calls[part, size] == {(size, 1), (2 * size, 2)}, f"{part} of {size} rows"
        for size in made.tokens:
            assert self.calls["mixed", size] == {(size, size)}, f"mixed step of {size} rows"


@pytest.mark.parametrize("capacity", [9, 18])
def test_a_captured_decode_graph_has_query_length_one(capacity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a mixed one keeps the bound of all rows; buckets cover 1..capacity. For the red see the next test."""
    captured = Captured()
    captured.watch(monkeypatch)
    engine = on_gpu(max_num_seqs=capacity, max_num_batched_tokens=70)
    captured.check(capacity, 70)
    heard = speak(engine, SAMPLED)
    assert_same(heard, on_cpu())
    replayed = {(part, size) for (part, size) in [*engine.runner.graphs.replays, *engine.runner.codec_graphs.replays]}
    assert replayed <= captured.calls.keys()


def test_decode_graphs_with_the_bucket_as_query_bound_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same codes come out, more slowly: only the check of what was captured tells."""

    def decode(self: StepProgram, rows: int, plan: object = None) -> None:
        self.frame.run(self.talker(rows, None, query_len=rows))

    captured = Captured()
    monkeypatch.setattr(StepProgram, "decode", decode)
    captured.watch(monkeypatch)
    assert_same(speak(on_gpu(), SAMPLED), on_cpu())
    with pytest.raises(AssertionError, match="decode of 2 rows"):
        captured.check(4, 48)


THREE = [request(f"r{i}", TEXTS[i], seed=30 + i, max_frames=8, sampling=LASTING) for i in range(3)]
"""Three rows in a bucket of four."""


NOBODYS = Scratch(slot=4, kv_slot=4 * 32 * 8)
"""Behind four slots of 32 blocks of 8 positions."""


@pytest.mark.parametrize("leak", [replace(NOBODYS, slot=0), replace(NOBODYS, kv_slot=10)], ids=["slot", "place"])
def test_padding_that_stands_on_a_real_slot_or_place_is_noticed(leak: Scratch) -> None:
    """With the real scratch slot and place nobody is changed. Blocks are given out from 0, so place 10 is the second
    frame's of the first request, of which the later ones see the key.
    """
    engine = on_gpu()
    assert engine.runner.rows.scratch == NOBODYS
    expected = ToyEngine().speak(THREE)
    assert_same(speak(engine, THREE), expected)
    assert engine.runner.graphs.replays["decode", 4] > 0
    engine.runner.rows.scratch = leak
    heard = speak(engine, THREE)
    changed = [
        not np.array_equal(heard[one.id].codes, expected[one.id].codes)
        or np.abs(heard[one.id].pcm - expected[one.id].pcm).max() > 1e-3
        for one in THREE
    ]
    assert any(changed)


def test_a_cache_of_which_keys_and_values_are_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the launcher, before a wrong sound is made."""
    inner = paged_attention

    def aliased(qkv: Tensor, heads: Heads, rows: KVRows, keys: Tensor, values: Tensor, query_len: int) -> Tensor:
        return inner(qkv, heads, rows, keys, keys, query_len)

    monkeypatch.setattr(attention, "paged_attention", aliased)
    with pytest.raises(AssertionError, match="share their memory"):
        on_gpu(enforce_eager=True).speak(THREE)


def test_values_in_place_of_keys_change_the_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison of codes sees what the launcher cannot: values that are keys in memory of their own."""
    inner = paged_attention

    def aliased(qkv: Tensor, heads: Heads, rows: KVRows, keys: Tensor, values: Tensor, query_len: int) -> Tensor:
        packed = qkv.clone().unflatten(1, (-1, heads.head_dim))
        packed[:, -heads.num_kv_heads :] = packed[:, heads.num_heads : heads.num_heads + heads.num_kv_heads]
        return inner(packed.flatten(1), heads, rows, keys, values, query_len)

    monkeypatch.setattr(attention, "paged_attention", aliased)
    with pytest.raises(AssertionError):
        assert_same(speak(on_gpu(), SAMPLED), on_cpu())


# What a step may not do.


def test_nothing_is_compiled_while_settings_change() -> None:
    """Top-k, top-p, temperature, greedy or not, penalty, number of requests: all at run time. Red if one of them is a
    constant of a kernel, or if a bucket is missing.
    """
    engine = graphs()
    eager = on_gpu(enforce_eager=True)
    for rows in (1, 2, 3, 4):  # nothing is padded there: each batch size may have kernels of its own
        speak(eager, [replace(one, sampling=LASTING, max_frames=3) for one in SAMPLED[:rows]])
    before = compilations()
    for number, top_k in enumerate((1, 2, 7, 16, 17, 64, 1000, 0)):
        talker = DrawParams(number % 3 > 0, 0.3 + 0.2 * number, top_k, 1 - 0.1 * number)
        predictor = DrawParams(number % 2 > 0, 1.7 - 0.2 * number, top_k + 1, 0.3 + 0.1 * number)
        sampling = SamplingParams(talker, predictor, repetition_penalty=1 + 0.1 * number, min_frames=number)
        asked = [replace(one, sampling=sampling, seed=2**40 * number + one.seed) for one in SAMPLED]
        speak(engine, asked[: 1 + number])
        speak(eager, asked)
    assert compilations() == before
    assert engine.stats()["compilations"] == 0


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "graphs"])
@pytest.mark.parametrize("context", [0, 5, 7])
def test_the_host_never_waits_between_admission_and_launch(
    eager: bool, context: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts, starts (also with reference frames for the codec, captured for 5) and launches only queue. Red with
    `.item()`, a copy from memory that is not pinned, or a mask as an index, anywhere on the way.
    """

    def make_prompt(one: SpeechRequest) -> Prompt:
        prompt = toy_prompt(one, "cuda")
        return replace(prompt, context_codes=codes) if context else prompt

    codes = torch.randint(0, 64, (context, 16), device="cuda")
    engine = on_gpu(make_prompt=make_prompt, enforce_eager=eager, context_frames=5)
    speak(engine, SAMPLED)
    launch = engine._launch

    def watched() -> None:
        while len(engine._flights) > engine.steps_behind:
            engine._land()
        with no_waiting():
            launch()

    monkeypatch.setattr(engine, "_launch", watched)
    speak(engine, SAMPLED)
    with pytest.raises(RuntimeError, match="synchronizing"), no_waiting():
        torch.zeros(1, device="cuda").item()


# Bfloat16.

LOGITS_BF16 = 0.02
"""Of the largest logit of the row, root mean square over a row: weights, activations and three layers' sums in eight
bits. Measured with the references on a CPU: 0.006."""
PCM_BF16 = 0.1
"""Of the signal's root mean square, over an utterance: more than thirty layers in eight bits. Measured with the
references on a CPU: 0.04."""


Logits = dict[tuple[int, int], Tensor]
"""Of codebook 0, by seed and frame."""


class Teacher:
    """Forces every code to be a function of (seed, frame, codebook), and keeps codebook 0's logits of eager steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.logits: Logits = {}
        self.keep = False
        change_logits(monkeypatch, self._talker, noise_decides)

    def _talker(self, logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
        if self.keep:
            keys = zip(rows.seeds[rows.slots].tolist(), rows.frames.tolist(), strict=True)
            self.logits.update(zip(keys, logits.float().cpu().clone(), strict=True))
        return noise_decides(0, logits, rows)

    def listen(self, asked: list[SpeechRequest], **options: Any) -> tuple[dict[str, Heard], Logits]:
        self.keep, self.logits = bool(options.get("enforce_eager", True)), {}
        engine = ToyEngine(max_num_batched_tokens=48, **options)
        return speak(engine, asked), self.logits


def compare_bfloat16(device: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    teacher = Teacher(monkeypatch)
    asked = requests(6, sampling=LASTING)
    expected, right = teacher.listen(asked)
    heard, logits = teacher.listen(asked, device=device, dtype=torch.bfloat16, **options)
    for one in asked:
        ours, theirs = heard[one.id].pcm, expected[one.id].pcm
        assert_sound(heard[one.id])
        assert np.isfinite(ours).all()
        assert np.array_equal(heard[one.id].codes, expected[one.id].codes), "codes are forced"
        assert np.sqrt(np.mean((ours - theirs) ** 2)) < PCM_BF16 * np.sqrt(np.mean(theirs**2))
    for key in logits.keys() & right.keys():
        gap = (logits[key] - right[key]).square().mean().sqrt()
        assert gap < LOGITS_BF16 * right[key].abs().max(), key


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "graphs"])
def test_bfloat16_is_float32_with_fewer_bits(eager: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Teacher-forced, so that rounding cannot send a stream elsewhere. Red if a kernel adds in bfloat16, or if a row
    reads another's keys.
    """
    compare_bfloat16("cuda", monkeypatch, enforce_eager=eager)


def test_bfloat16_codes_are_the_same_twice() -> None:
    """Sampled, in the same batch layout. Red if a sum is added in the order in which programs come."""
    engine = on_gpu(dtype=torch.bfloat16)
    first, again = speak(engine, SAMPLED), speak(engine, SAMPLED)
    for name, one in first.items():
        assert_sound(one)
        assert np.isfinite(one.pcm).all()
        assert one.pcm.tobytes() == again[name].pcm.tobytes()
