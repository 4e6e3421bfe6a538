"""Preempted and resumed is never preempted: same codes, same PCM, every frame once.

Wherever a sequence is resumed, its new slot and blocks are poisoned first, and so are those that it left: what the
restore does not bring back, or what is read through an old slot number or block table, is NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.toys import (
    TEXTS,
    Heard,
    ToyEngine,
    assert_sound,
    change_logits,
    end_after,
    force_codes,
    no_waiting,
    request,
    toy_prompt,
)
from ttsbench.core import DrawParams, FinishReason, SamplingParams, SpeechRequest, TextLayout
from ttsbench.engine import fused
from ttsbench.engine.capacity import describe_runner, history_bytes
from ttsbench.engine.preemption import Suspended
from ttsbench.engine.runner import Flight, Runner
from ttsbench.engine.scheduler import PrefillChunk, Sequence, StepPlan
from ttsbench.kernels.draw import FirstCodeRules, Rows
from ttsbench.models.qwen3_tts.prompt import Prompt

pytestmark = pytest.mark.usefixtures("full_float32")

LASTING = SamplingParams(min_frames=99)
SETTINGS = (
    LASTING,
    SamplingParams(DrawParams(top_k=0), repetition_penalty=1.8),
    SamplingParams(DrawParams(do_sample=False), DrawParams(do_sample=False), repetition_penalty=1.3, min_frames=99),
)
LAYOUTS = (TextLayout.STREAMING, TextLayout.NON_STREAMING)

on_every_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
behind_or_not = pytest.mark.parametrize("steps_behind", [0, 1])


def asked(count: int = 33) -> list[SpeechRequest]:
    """Both text layouts; some end by themselves, most at their limit; settings that draw, that do not, and that look at
    codes so far.
    """
    return [
        request(
            f"r{i}",
            TEXTS[2 * i % 8],
            seed=50 + i,
            max_frames=10 + 6 * (i % 5),
            text_layout=LAYOUTS[i % 3 > 0],
            sampling=SETTINGS[i % 3],
        )
        for i in range(count)
    ]


class PoisonedRunner(Runner):
    """Poisons a slot and its blocks when they are left, and again before somebody is resumed there."""

    @torch.inference_mode()
    def suspend(self, slot: int, blocks: list[int], input_rows: int) -> Suspended:
        kept = super().suspend(slot, blocks, input_rows)
        self.poison(slot, blocks)
        return kept

    @torch.inference_mode()
    def resume(self, slot: int, blocks: list[int], request: SpeechRequest, kept: Suspended, frame_limit: int) -> None:
        self.poison(slot, blocks)
        super().resume(slot, blocks, request, kept, frame_limit)

    def poison(self, slot: int, blocks: list[int]) -> None:
        with self.context():
            self.state.seen[slot] = True
            self.state.pads[slot] = float("nan")
            for block in blocks:
                places = slice(block * self.cache.block_size, (block + 1) * self.cache.block_size)
                self.cache.inputs[places] = float("nan")
                self.cache.kv[:, :, places] = float("nan")
        with self._side_of_main():
            self.codec.position[slot] = 9
            for tensor in self.codec.state[1:]:
                tensor[slot] = float("nan")


@pytest.fixture(autouse=True)
def _poisoned_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "Runner", PoisonedRunner)


WITHIN_PROMPT = -1


class Pressed(ToyEngine):
    """An engine that grows into a pool that is too small, and that notes who was preempted, at which frame, and from
    and to which slot. `at`: who is preempted besides when so many of its frames are launched, at each number once; 0 is
    before anything is, `WITHIN_PROMPT` where rows of the prompt are.
    """

    def __init__(self, at: dict[str, list[int]] | None = None, **options: Any) -> None:
        self.at = {name: list(frames) for name, frames in (at or {}).items()}
        self.preempted: list[tuple[str, int]] = []
        self.left: dict[str, int] = {}
        self.moves: list[tuple[int, int]] = []
        super().__init__(**{"reserve_blocks": False, "max_num_batched_tokens": 68, **options})

    def _make_room(self) -> None:
        super()._make_room()
        while self.scheduler.running:
            newest = self.scheduler.running[-1]
            frames = self.at.get(newest.request.id, [])
            if moment_of(newest) not in frames:
                break
            frames.remove(moment_of(newest))
            self._preempt(newest)

    def _preempt(self, sequence: Sequence) -> None:
        self.preempted.append((sequence.request.id, moment_of(sequence)))
        self.left[sequence.request.id] = sequence.slot
        super()._preempt(sequence)

    def _resume(self, sequence: Sequence) -> bool:
        resumed = super()._resume(sequence)
        if resumed:
            self.moves.append((self.left[sequence.request.id], sequence.slot))
        return resumed


def moment_of(sequence: Sequence) -> int:
    return WITHIN_PROMPT if sequence.prefilled and not sequence.launched else sequence.launched


TIGHT: dict[str, Any] = {"max_num_seqs": 5, "num_kv_blocks": 15, "block_size": 4, "max_model_len": 96}
"""Five requests of 9 to 23 prompt rows and 10 to 34 frames ask for up to 70 blocks; any one fits alone."""


@cache
def undisturbed(device: str) -> dict[str, Heard]:
    """The same requests one at a time, all blocks reserved."""
    options: dict[str, Any] = {"max_num_seqs": 1, "max_num_batched_tokens": 64, "max_model_len": 96}
    return ToyEngine(device=device, batch_invariant=True, **options).speak(asked())


def assert_equal(heard: dict[str, Heard], expected: dict[str, Heard]) -> None:
    """To the byte, frames and ends too, of all that was heard."""
    assert heard.keys() <= expected.keys()
    for name, one in heard.items():
        assert_sound(one)
        assert one.chunks[-1].finish == expected[name].chunks[-1].finish, name
        assert np.array_equal(one.codes, expected[name].codes), name
        assert one.pcm.tobytes() == expected[name].pcm.tobytes(), name


@on_every_device
@behind_or_not
def test_preempted_and_resumed_is_never_preempted(steps_behind: int, device: str) -> None:
    """33 requests, some preempted twice, resumed in other slots too: codes and PCM byte for byte. For what turns it red
    see the next tests; also red if rows of frames run as tiles, as prompts do.
    """
    engine = Pressed(device=device, batch_invariant=True, steps_behind=steps_behind, **TIGHT)
    heard = engine.speak(asked())
    assert len(heard) == 33
    assert_equal(heard, undisturbed(device))
    assert len(engine.preempted) == engine.stats()["preemptions"] >= 16
    assert max(Counter(name for name, _ in engine.preempted).values()) >= 2
    assert any(old != new for old, new in engine.moves)
    engine.assert_empty()


PIECES = ("inputs", "seen", "pad", "codec", "everything")


def forgetting(piece: str) -> Callable[..., None]:
    """A `Runner.resume` that leaves out one piece."""

    @torch.inference_mode()
    def resume(
        self: PoisonedRunner, slot: int, blocks: list[int], request: SpeechRequest, kept: Suspended, limit: int
    ) -> None:
        self.poison(slot, blocks)
        poisoned = self.suspend(slot, blocks, len(kept.inputs))
        kept = poisoned if piece == "everything" else replace(kept, **{piece: getattr(poisoned, piece)})
        Runner.resume(self, slot, blocks, request, kept, limit)

    return resume


@on_every_device
@pytest.mark.parametrize("piece", PIECES)
def test_a_restore_that_does_nothing_is_noticed(piece: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or that leaves out one piece: whoever was preempted with frames is not what it should be."""
    monkeypatch.setattr(PoisonedRunner, "resume", forgetting(piece))
    engine = Pressed(device=device, batch_invariant=True, **TIGHT)
    heard = engine.speak(asked(9))
    assert engine.preempted
    with pytest.raises(AssertionError):
        assert_equal(heard, undisturbed(device))
    engine.assert_empty()


FirstLogits = dict[tuple[int, int], Tensor]
"""Of codebook 0, by seed and frame."""


@pytest.fixture
def logits(monkeypatch: pytest.MonkeyPatch) -> FirstLogits:
    """Those of eager steps, as they come."""
    seen: FirstLogits = {}

    def first(logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
        keys = zip(rows.seeds[rows.slots].tolist(), rows.frames.tolist(), strict=True)
        seen.update(zip(keys, logits.clone(), strict=True))
        return logits

    change_logits(monkeypatch, first)
    return seen


def bits_of_logits(logits: FirstLogits, device: str) -> tuple[FirstLogits, FirstLogits]:
    """Without and with preemptions."""
    options: dict[str, Any] = {"device": device, "enforce_eager": True, "batch_invariant": True}
    ToyEngine(**options, max_num_seqs=1, max_num_batched_tokens=64, max_model_len=96).speak(asked(9))
    expected = dict(logits)
    logits.clear()
    engine = Pressed(**options, **TIGHT)
    engine.speak(asked(9))
    assert len(engine.preempted) >= 3
    return expected, logits


@on_every_device
def test_keys_and_values_are_the_same_to_the_bit(device: str, logits: FirstLogits) -> None:
    """Codes survive a small error; logits do not. For the red see the next test."""
    expected, again = bits_of_logits(logits, device)
    assert again.keys() == expected.keys()
    assert all(torch.equal(again[key], expected[key]) for key in expected)


def test_frames_computed_again_as_prompt_rows_are_noticed(logits: FirstLogits, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product over many rows adds in another order than over one. Not asked of a GPU, whose products may happen to
    round alike.
    """
    tiles = PrefillChunk.tiles

    def together(
        decode: tuple[Sequence, ...], prefill: tuple[PrefillChunk, ...], replay: PrefillChunk | None = None
    ) -> StepPlan:
        return StepPlan(decode, prefill if replay is None else (replay,))

    monkeypatch.setattr(PrefillChunk, "tiles", lambda chunk, size: tiles(chunk, 64))
    monkeypatch.setattr(fused, "StepPlan", together)
    expected, again = bits_of_logits(logits, "cpu")
    gaps = [float((again[key] - expected[key]).abs().max()) for key in again.keys() & expected.keys()]
    assert 0 < max(gaps) < 1e-3


@dataclass(frozen=True)
class Moment:
    """When the newest of two requests is preempted, and what it must be."""

    name: str
    at: tuple[int, ...]
    """Numbers of launched frames."""
    changes: dict[str, Any]
    options: dict[str, Any]


def two(moment: Moment) -> list[SpeechRequest]:
    """The newer one is preempted; the older one runs on beside it."""
    lasting = request("old", TEXTS[5], seed=3, max_frames=30, sampling=LASTING)
    newest = request("new", TEXTS[1], seed=4, max_frames=9, sampling=replace(SETTINGS[1], min_frames=99))
    return [lasting, replace(newest, **moment.changes)]


LONG = {"text": " ".join([TEXTS[3]] * 3), "text_layout": TextLayout.NON_STREAMING}
"""195 rows of prompt: three tiles of 64 and a rest."""
MOMENTS = [
    *(Moment(f"frame {n}", (n,), {}, {}) for n in range(1, 10)),
    *(Moment(f"frame {n} of a first chunk of 4", (n,), {}, {"chunk_frames": 4}) for n in (1, 2, 3)),
    Moment("first chunk, first frame at once", (1, 2), {}, {"chunk_frames": 4, "first_frame_at_once": True}),
    Moment("all held back", (4,), {}, {"chunk_frames": None}),
    Moment("before anything", (0,), {}, {}),
    Moment("before and within the prompt", (0, WITHIN_PROMPT), LONG, {}),
    Moment("behind a long prompt", (1, 6), LONG, {}),
    Moment("twice", (2, 6), {}, {}),
    Moment("at every frame", tuple(range(10)), {}, {}),
    Moment("the only frame", (1,), {"max_frames": 1}, {}),
]


@on_every_device
@behind_or_not
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name)
def test_at_any_moment(moment: Moment, steps_behind: int, device: str) -> None:
    """In the middle of a first chunk, before and after the last frame is launched, within the prompt, twice: both
    requests byte for byte, in the very same chunks. Red if `_commit` drops what comes back for a sequence without a
    slot, or if a resumed one starts its frames or chunks anew.
    """
    roomy: dict[str, Any] = {
        "max_num_seqs": 2,
        "max_num_batched_tokens": 68,
        "enforce_eager": True,
        "max_model_len": 256,
        "block_size": 4,
        "batch_invariant": True,
        "device": device,
    }
    options: dict[str, Any] = {**roomy, "steps_behind": steps_behind, **moment.options}
    expected = ToyEngine(**options).speak(two(moment))
    engine = Pressed({"new": list(moment.at)}, **options)
    heard = engine.speak(two(moment))
    assert_equal(heard, expected)
    for name, one in heard.items():
        assert [c.frames for c in one.chunks] == [c.frames for c in expected[name].chunks]
        assert [c.reason for c in one.chunks] == [c.reason for c in expected[name].chunks]
    limit = moment.changes.get("max_frames", 9)
    seen = [n for n in moment.at if n < limit or steps_behind]  # else its end is known before anything is planned
    assert engine.preempted == [("new", n) for n in seen]
    engine.assert_empty()


@on_every_device
@behind_or_not
@pytest.mark.parametrize("end", [1, 2, 5])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_around_the_end_of_speech(
    before: int, end: int, steps_behind: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One frame before the end is drawn, while it is under way, and before that. Red if a preempted sequence whose end
    comes back is resumed, or stays with those that wait.
    """
    end_after(monkeypatch, {3: 20, 4: end}, device)
    free = SamplingParams(min_frames=0)
    pair = [request("old", seed=3, max_frames=30, sampling=free), request("new", TEXTS[1], seed=4, sampling=free)]
    options: dict[str, Any] = {
        "max_num_seqs": 2,
        "enforce_eager": True,
        "block_size": 4,
        "batch_invariant": True,
        "steps_behind": steps_behind,
    }
    expected = ToyEngine(device=device, **options).speak(pair)
    engine = Pressed({"new": [end + 1 - before]}, device=device, **options)
    assert_equal(engine.speak(pair), expected)
    assert expected["new"].frames == end
    assert expected["new"].reason is FinishReason.STOP
    assert len(engine.preempted) == (1 if before or steps_behind else 0)
    engine.assert_empty()


@on_every_device
@behind_or_not
@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_codec_that_heard_reference_frames_goes_on(at: int, steps_behind: int, device: str) -> None:
    """Also when preempted before a frame of its own. Red if the codec's state is made anew on resumption."""
    codes = torch.randint(0, 64, (30, 16), device=device)

    def make_prompt(one: SpeechRequest) -> Prompt:
        return replace(toy_prompt(one, device), context_codes=codes)

    pair = [request("old", max_frames=12, sampling=LASTING), request("new", TEXTS[1], sampling=LASTING, max_frames=5)]
    options: dict[str, Any] = {
        "max_num_seqs": 2,
        "enforce_eager": True,
        "batch_invariant": True,
        "steps_behind": steps_behind,
        "device": device,
    }
    expected = ToyEngine(make_prompt, **options).speak(pair)
    engine = Pressed({"new": [at]}, make_prompt=make_prompt, **options)
    assert_equal(engine.speak(pair), {name: expected[name] for name in ("old", "new")})
    assert engine.preempted == [("new", at)]


@on_every_device
@behind_or_not
def test_cancelled_while_preempted_with_its_id_in_use_again_at_once(steps_behind: int, device: str) -> None:
    """What it had is heard up to there and it holds nothing more; its successor and all others are as if undisturbed.
    Red if what it kept stays behind (`assert_empty`), or if it is looked for among those that run.
    """
    engine = Pressed(device=device, batch_invariant=True, steps_behind=steps_behind, **TIGHT)
    again = {one.id: one for one in asked(12)}
    heard: dict[str, Heard] = {}
    cancelled: dict[str, Heard] = {}
    for asked_for in again.values():
        engine.submit(asked_for)
    for chunk in engine.chunks():
        heard.setdefault(chunk.request_id, Heard()).chunks.append(chunk)
        if chunk.finish is not None and chunk.finish.reason is FinishReason.CANCELLED:
            cancelled[chunk.request_id] = heard.pop(chunk.request_id)
        for sequence in tuple(engine._suspended):
            if (name := sequence.request.id) in again and sequence.frames:
                assert engine.cancel(name)
                assert not engine.cancel(name)
                engine.submit(again.pop(name))
    assert len(cancelled) >= 3
    expected = undisturbed(device)
    assert len(heard) == 12
    for name, one in heard.items():
        assert_sound(one)
        assert one.pcm.tobytes() == expected[name].pcm.tobytes()
    for name, one in cancelled.items():
        assert_sound(one)
        assert one.frames > 0
        assert one.pcm.tobytes() == expected[name].pcm[: len(one.pcm)].tobytes()
    engine.assert_empty()


@on_every_device
@behind_or_not
@pytest.mark.parametrize("invariant", [False, True])
def test_nothing_is_drawn_or_spoken_twice(
    invariant: bool, steps_behind: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every frame of every request is asked for once, and nothing else: no draw and no codec work while keys are
    computed again. Red if a prompt that is computed again gives its first frame once more.
    """
    asked_for: Counter[tuple[str, int]] = Counter()
    launch = Runner.launch

    def watched(self: Runner, plan: StepPlan) -> Flight:
        asked_for.update((sequence.request.id, sequence.launched) for sequence in plan.finishing)
        return launch(self, plan)

    monkeypatch.setattr(PoisonedRunner, "launch", watched)
    engine = Pressed(device=device, batch_invariant=invariant, steps_behind=steps_behind, **TIGHT)
    lasting = [replace(one, sampling=LASTING) for one in asked(9)]
    heard = engine.speak(lasting)
    assert len(engine.preempted) >= 3
    assert set(asked_for.values()) == {1}
    for name, one in heard.items():
        assert_sound(one)
        assert {frame for n, frame in asked_for if n == name} >= set(range(one.frames))
    assert sum(asked_for.values()) <= sum(one.frames for one in heard.values()) + steps_behind * len(heard)
    engine.assert_empty()


@on_every_device
@behind_or_not
def test_seeded_differs_by_rounding_only(steps_behind: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the `seeded` level frames are computed again as prompt rows. With codes forced to be a function of the noise
    alone, logits and PCM agree to 1e-4 of full scale. Red with any wrong row, key or codec state.
    """
    seen = force_codes(monkeypatch)
    lasting = [replace(one, sampling=LASTING) for one in asked(9)]
    eager: dict[str, Any] = {"device": device, "enforce_eager": True, "steps_behind": steps_behind}
    expected, right = ToyEngine(**eager, max_model_len=96).speak(lasting), dict(seen)
    seen.clear()
    engine = Pressed(**eager, **TIGHT)
    heard = engine.speak(lasting)
    assert len(engine.preempted) >= 3
    for one in lasting:
        assert np.array_equal(heard[one.id].codes, expected[one.id].codes)
        assert np.abs(heard[one.id].pcm - expected[one.id].pcm).max() < 1e-4
        for frame in range(expected[one.id].frames):
            gap = (seen[one.seed, frame] - right[one.seed, frame]).abs().max()
            assert gap < 1e-4 * right[one.seed, frame].abs().max()


@pytest.mark.gpu
def test_bfloat16_is_resumed_to_the_byte_too() -> None:
    """With eight bits a product in another shape rounds otherwise nearly always. Red as above."""
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16, "batch_invariant": True}
    expected = ToyEngine(**options, max_num_seqs=1, max_num_batched_tokens=64, max_model_len=96).speak(asked())
    engine = Pressed(**options, **TIGHT)
    heard = engine.speak(asked())
    assert len(heard) == 33
    assert len(engine.preempted) >= 16
    assert_equal(heard, expected)
    engine.assert_empty()


@pytest.mark.gpu
@pytest.mark.parametrize("invariant", [False, True])
def test_the_host_never_waits_to_preempt_or_resume(invariant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is copied behind the steps in line. Red with a copy to memory of the host, or an `.item()`."""
    engine = Pressed(device="cuda", batch_invariant=invariant, **TIGHT)
    engine.speak(asked(9))  # the allocator has seen such sizes
    launch, before = engine._launch, len(engine.preempted)

    def watched() -> None:
        while len(engine._flights) > engine.steps_behind:
            engine._land()
        with no_waiting():
            launch()

    monkeypatch.setattr(engine, "_launch", watched)
    engine.speak(asked(9))
    assert len(engine.preempted) > before


def test_what_cannot_be_kept_ends_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when memory runs out. Red if the error ends the loop, or if the sequence keeps its place."""

    def suspend(self: Runner, slot: int, blocks: list[int], input_rows: int) -> Suspended:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(PoisonedRunner, "suspend", suspend)
    moment = Moment("", (3,), {}, {})
    options: dict[str, Any] = {"max_num_seqs": 2, "batch_invariant": True}
    expected = ToyEngine(**options).speak(two(moment))
    engine = Pressed({"new": [3]}, **options)
    heard = engine.speak(two(moment))
    assert_equal({"old": heard["old"]}, {"old": expected["old"]})
    assert heard["new"].reason is FinishReason.FAILED
    assert heard["new"].pcm.tobytes() == expected["new"].pcm[: len(heard["new"].pcm)].tobytes()
    assert engine.stats()["preemptions"] == 0
    engine.assert_empty()


def test_who_never_fits_alone_is_refused_before_any_work() -> None:
    """Its prompt fills the whole pool. Red if it is admitted and then preempts itself for ever; its neighbours run."""
    long = request("long", " ".join([TEXTS[3]] * 3), text_layout=TextLayout.NON_STREAMING)
    engine = Pressed(batch_invariant=True, **TIGHT)
    heard = engine.speak([request("a", max_frames=3), long, request("b", max_frames=3)])
    finish = heard["long"].chunks[-1].finish
    assert finish is not None
    assert (finish.reason, finish.code) == (FinishReason.FAILED, "prompt_too_long")
    assert (heard["a"].reason, heard["b"].reason) == (FinishReason.LENGTH, FinishReason.LENGTH)
    engine.assert_empty()


def test_what_is_kept_is_budgeted_and_fits() -> None:
    """The longest that may be kept takes no more than the capacity log says. Red if a tensor is left out of the sum."""
    engine = Pressed(max_num_seqs=3, max_model_len=64)
    runner = engine.runner
    each = history_bytes(runner.config, runner.codec, runner.options, runner.cache.kv.dtype)
    kept = runner.suspend(0, list(range(16)), 64)
    tensors = (kept.inputs, kept.seen, kept.pad, kept.codec.position, kept.codec.past)
    assert sum(tensor.nbytes for tensor in tensors) == each
    total = 2 * each / 1e6
    assert f"preempted requests up to {total:.0f} MB ({each / 1e6:.1f} MB each" in describe_runner(runner)
    assert "preempted" not in describe_runner(ToyEngine(max_num_seqs=3).runner)
