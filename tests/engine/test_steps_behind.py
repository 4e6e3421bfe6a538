"""A host one step behind says the same as one that waits: here with both on a CPU.

With `steps_behind=1` a step is launched before the one before is seen, so a sequence that ended has been asked for one
frame too many. Nobody may ever notice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.toys import (
    HOP,
    TEXTS,
    Heard,
    ToyEngine,
    assert_sound,
    change_logits,
    end_after,
    request,
    requests,
    toy_prompt,
)
from ttsbench.core import AudioChunk, Finish, FinishReason, SamplingParams, SpeechRequest
from ttsbench.engine.runner import Flight, StepOutput
from ttsbench.engine.scheduler import Sequence, StepPlan
from ttsbench.kernels.draw import FirstCodeRules, Rows

FREE = SamplingParams(min_frames=0)
LASTING = SamplingParams(min_frames=99)


def behind(**options: Any) -> ToyEngine:
    return ToyEngine(steps_behind=1, **options)


@dataclass(frozen=True)
class Mix:
    """Requests, where the model ends them, and an engine."""

    asked: list[SpeechRequest]
    ends: dict[int, int]
    options: dict[str, Any]


def mix(seed: int) -> Mix:
    """Limits of 1 and more, ends at frame 0 and more, more requests than slots, and blocks that are waited for."""
    rng = random.Random(seed)
    count, invariant = rng.randint(1, 9), rng.random() < 0.5
    asked = [
        request(f"r{i}", rng.choice(TEXTS), seed=i, max_frames=rng.choice((1, 1, 2, 3, 5, 8)), sampling=FREE)
        for i in range(count)
    ]
    ends = {i: rng.choice((0, 1, 2, 3, 4, 7)) for i in range(count) if rng.random() < 0.6}
    options = {
        "max_num_seqs": rng.randint(1, 4),
        "max_num_batched_tokens": rng.choice((67, 80, 512)) if invariant else rng.choice((5, 11, 512)),
        "chunk_frames": rng.choice((1, 3, None)),
        "first_frame_at_once": rng.random() < 0.5,
        "num_kv_blocks": rng.choice((None, 6)),
        "block_size": rng.choice((8, 16)),
        "batch_invariant": invariant,
    }
    return Mix(asked, ends, options)


def shape(heard: Heard) -> list[tuple[object, ...]]:
    """All of a stream but its sound and its times."""
    return [(c.index, c.frames, c.chunk_target, c.reason, c.finish) for c in heard.chunks]


@pytest.mark.parametrize("seed", range(24))
def test_the_same_is_heard_as_without_the_step_between(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes, chunks and ends are equal, and PCM to 1e-4 of full scale, as admission may fall into another batch; byte
    for byte at `batch_invariant`. Red if the frame past the end is emitted, or if its codes mark the slot's next owner
    (`SlotState.start` before the launch).
    """
    made = mix(seed)
    end_after(monkeypatch, made.ends)
    waiting, ahead = ToyEngine(steps_behind=0, **made.options), behind(**made.options)
    expected, heard = waiting.speak(made.asked), ahead.speak(made.asked)
    for one in made.asked:
        assert shape(heard[one.id]) == shape(expected[one.id])
        assert np.array_equal(heard[one.id].codes, expected[one.id].codes)
        if made.options["batch_invariant"]:
            assert heard[one.id].pcm.tobytes() == expected[one.id].pcm.tobytes()
        assert np.abs(heard[one.id].pcm - expected[one.id].pcm).max(initial=0) < 1e-4
        assert_sound(heard[one.id])
    ahead.assert_empty()


@pytest.mark.parametrize("ends", [True, False], ids=["stop", "length"])
@pytest.mark.parametrize("frames", [0, 1, 2, 3])
def test_n_frames_are_n_times_1920_samples(frames: int, ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the step that prefills makes the last frame, or draws end of speech at once. Red if the frame that
    was already under way counts: try dropping `sequence.slot < 0` in `_commit`.
    """
    if not frames and not ends:
        return  # a request for no frame is not one
    end_after(monkeypatch, {1: frames} if ends else {})
    engine = behind()
    neighbour = request("b", TEXTS[1], seed=2, max_frames=9, sampling=LASTING)
    heard = engine.speak([request("a", seed=1, max_frames=frames + ends, sampling=FREE), neighbour])
    assert heard["a"].reason is (FinishReason.STOP if ends else FinishReason.LENGTH)
    assert len(heard["a"].pcm) == frames * HOP
    assert len(heard["a"].codes) == frames
    assert heard["b"].frames == 9
    for one in heard.values():
        assert_sound(one)
    engine.assert_empty()


@pytest.mark.parametrize("block_size", [1, 8])
@pytest.mark.parametrize("room", [1, 2, 5])
def test_the_model_length_is_the_cap_of_what_is_launched_too(
    room: int, block_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompt and frames fill the model length; the frame asked for past it reads no rotary row beyond the table, and
    no block. Red without the bound on the next input's position, or if a third step is launched for the row.
    """
    end_after(monkeypatch, {})
    rows = len(toy_prompt(request("a")).rows)
    engine = behind(max_model_len=rows + room, block_size=block_size)
    heard = engine.speak([request("a", max_frames=100)])["a"]
    assert (heard.frames, heard.reason) == (room, FinishReason.LENGTH)
    assert len(heard.pcm) == room * HOP
    engine.assert_empty()


def test_an_end_that_comes_twice_ends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row draws end of speech in the step already under way too, and reports its limit twice. Red (a second final
    chunk, or slots freed twice) without the check in `_commit`.
    """

    def first(logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
        changed = logits.clone()
        ended = (rows.seeds[rows.slots] == 1) & (rows.frames >= 2)
        changed[:, rules.eos] = torch.where(ended, 1e9, -1e9)
        return changed

    change_logits(monkeypatch, first)
    engine, flags = behind(), list[bool]()
    collect = engine.runner.collect

    def watched(flight: Flight) -> StepOutput | None:
        output = collect(flight)
        assert output is not None
        flags.extend((output.ended | output.last).tolist())
        return output

    monkeypatch.setattr(engine.runner, "collect", watched)
    asked = [request("a", seed=1, max_frames=9), request("b", TEXTS[1], seed=2, max_frames=4)]
    heard = engine.speak(asked)
    assert sum(flags) == 4, "both rows say it twice"
    assert [(heard[n].frames, heard[n].reason) for n in "ab"] == [(2, FinishReason.STOP), (4, FinishReason.LENGTH)]
    for one in heard.values():
        assert sum(chunk.final for chunk in one.chunks) == 1
    engine.assert_empty()


@pytest.mark.parametrize("invariant", [False, True])
def test_a_step_writes_into_the_blocks_of_its_sequences_alone(invariant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, values and inputs before and after every launch: what changed belongs to a sequence of the plan, which has
    not ended. Red if a plan made before the last step landed is launched as it was.
    """
    end_after(monkeypatch, {i: i % 4 for i in range(12)})
    engine = behind(
        max_num_seqs=3, max_num_batched_tokens=70, batch_invariant=invariant, block_size=4, num_kv_blocks=24
    )
    cache, launch = engine.runner.cache, engine.runner.launch

    def watched(plan: StepPlan) -> Flight:
        owners = [*plan.decode, *(chunk.sequence for chunk in plan.prefill)]
        assert all(not sequence.ended for sequence in owners)
        owned = [block for sequence in owners for block in sequence.blocks]
        others = torch.tensor([block not in owned for block in range(engine.runner.cache.num_blocks + 1)])
        mine = others.repeat_interleave(cache.block_size)
        before = cache.kv[:, :, mine].clone(), cache.inputs[mine].clone()
        flight = launch(plan)
        assert torch.equal(before[0], cache.kv[:, :, mine])
        assert torch.equal(before[1], cache.inputs[mine])
        return flight

    monkeypatch.setattr(engine.runner, "launch", watched)
    asked = [request(f"r{i}", TEXTS[i % 8], seed=i, max_frames=1 + i % 5, sampling=FREE) for i in range(12)]
    engine.speak(asked)
    engine.assert_empty()


@pytest.mark.parametrize("length", [1, 4])
def test_blocks_and_slot_that_are_used_again_at_once_hold_nothing_of_before(length: int) -> None:
    """One slot, and blocks for one request: each is started behind the frame that its predecessor was asked for past
    its end, and sounds as if alone, byte for byte. Red if a start writes before that frame has run.
    """
    asked = [request(f"r{i}", TEXTS[i], seed=i, max_frames=length + i % 2) for i in range(5)]
    engine = behind(max_num_seqs=1, num_kv_blocks=3, block_size=8)
    heard = engine.speak(asked)
    for one in asked:
        alone = behind(max_num_seqs=1, num_kv_blocks=3, block_size=8).speak([one])
        assert heard[one.id].pcm.tobytes() == alone[one.id].pcm.tobytes()


@dataclass
class Lives:
    """What was heard under each id, one `Heard` for each time that it was in use."""

    of: dict[str, list[Heard]] = field(default_factory=dict)

    def take(self, chunk: AudioChunk) -> None:
        lives = self.of.setdefault(chunk.request_id, [Heard()])
        if lives[-1].chunks and lives[-1].chunks[-1].final:
            lives.append(Heard())
        lives[-1].chunks.append(chunk)


def listen(engine: ToyEngine, asked: Iterable[SpeechRequest], on_chunk: Callable[[AudioChunk], None]) -> Lives:
    """Every stream of every id, each complete and in order."""
    lives = Lives()
    for one in asked:
        engine.submit(one)
    for chunk in engine.chunks():
        lives.take(chunk)
        on_chunk(chunk)
    for streams in lives.of.values():
        for heard in streams:
            assert_sound(heard)
    engine.assert_empty()
    return lives


@pytest.mark.parametrize("chunk_frames", [1, 3, None])
@pytest.mark.parametrize("moment", range(12))
def test_cancelled_at_any_moment_with_id_and_slot_in_use_again_at_once(moment: int, chunk_frames: int | None) -> None:
    """At the n-th chunk of anybody, the first request is cancelled and its id submitted anew. Both streams are whole,
    and the new one and the neighbour are as if undisturbed. Red if frames of the former owner reach the new one: try
    finding sequences by id in `_commit`.
    """
    old = request("a", TEXTS[3], seed=5, max_frames=8, sampling=LASTING)
    new = request("a", TEXTS[1], seed=6, max_frames=5, sampling=LASTING)
    other = request("b", TEXTS[5], seed=7, max_frames=9, sampling=LASTING)
    engine, heard, again = behind(max_num_seqs=2, chunk_frames=chunk_frames), [0], list[bool]()

    def on_chunk(chunk: AudioChunk) -> None:
        if heard[0] == moment and not again:
            again.append(engine.cancel("a"))
            engine.submit(new)
        heard[0] += 1

    lives = listen(engine, [old, other], on_chunk)
    if again != [True]:
        return  # it had ended before
    first, second = lives.of["a"]
    assert first.reason is FinishReason.CANCELLED
    alone = {one.id: behind(max_num_seqs=2, chunk_frames=chunk_frames).speak([one])[one.id] for one in (new, other)}
    for got, expected in ((second, alone["a"]), (lives.of["b"][0], alone["b"])):
        assert [c.frames for c in got.chunks] == [c.frames for c in expected.chunks]
        assert np.abs(got.pcm - expected.pcm).max() < 1e-4


@pytest.mark.parametrize("victim", ["r0", "r1", "r3"])
@pytest.mark.parametrize("index", [0, 1, 2, 4])
def test_a_last_chunk_never_overtakes(victim: str, index: int) -> None:
    """While the chunks of a step are handed out, a listener cancels somebody whose chunk of that step still waits.
    `listen` has the order checked. Red if a last chunk is always urgent.
    """
    engine, cancelled = behind(), list[bool]()

    def on_chunk(chunk: AudioChunk) -> None:
        if chunk.request_id == "r1" and chunk.index == index and not cancelled:
            cancelled.append(engine.cancel(victim))

    lives = listen(engine, requests(4, max_frames=8, sampling=LASTING), on_chunk)
    assert cancelled == [True]
    assert {name for name, (heard,) in lives.of.items() if heard.reason is FinishReason.CANCELLED} == {victim}


class Watched(ToyEngine):
    """Notes what is launched, and how much had been when a chunk was made."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"steps_behind": 1, **options})
        self.launched: list[set[str]] = []
        self.made_at: dict[tuple[str, int], int] = {}
        self._inner, self.runner.launch = self.runner.launch, self._watch  # type: ignore[method-assign]

    def _watch(self, plan: StepPlan) -> Flight:
        rows = (*plan.decode, *(chunk.sequence for chunk in plan.prefill))
        self.launched.append({sequence.request.id for sequence in rows})
        return self._inner(plan)

    def _queue(self, sequence: Sequence, now: int, finish: Finish | None) -> None:
        self.made_at[sequence.request.id, sequence.chunks] = len(self.launched)
        super()._queue(sequence, now, finish)


def test_who_is_submitted_on_a_last_chunk_is_in_the_very_next_launch() -> None:
    """In the first one after the end was seen, with neighbours before and behind in the batch. Red if a last chunk
    waits behind the chunks of others, which are handed out while the next step is under way.
    """
    engine = Watched(max_num_seqs=3)
    seen: list[int] = []

    def on_chunk(chunk: AudioChunk) -> None:
        if chunk.request_id == "short" and chunk.final:
            engine.submit(request("next", max_frames=2))
            seen.append(engine.made_at["short", chunk.index])

    long = [request(name, text, max_frames=12, sampling=LASTING) for name, text in (("a", TEXTS[0]), ("c", TEXTS[1]))]
    short = request("short", TEXTS[2], max_frames=4, sampling=LASTING)
    listen(engine, [long[0], short, long[1]], on_chunk)
    assert engine.launched[seen[0]] == {"a", "c", "next"}


def test_first_and_last_chunks_come_before_the_next_launch() -> None:
    """And the others after it: then the device is busy while they are handed out. Red if all wait, or none do, or if
    one waits since a neighbour's chunk was made before it.
    """
    engine = Watched(max_num_batched_tokens=20)  # so that one starts after the other
    late: dict[tuple[str, int], int] = {}
    waited_for: set[tuple[str, int]] = set()

    def on_chunk(chunk: AudioChunk) -> None:
        key = (chunk.request_id, chunk.index)
        late[key] = len(engine.launched) - engine.made_at[key]
        if chunk.final or chunk.index == 0:
            waited_for.add(key)

    listen(engine, [replace(one, max_frames=10 - i) for i, one in enumerate(requests(4, sampling=LASTING))], on_chunk)
    assert len(waited_for) == 8
    assert {late[key] for key in waited_for} == {0}
    assert {late[key] for key in late.keys() - waited_for} == {1}


def test_a_listener_that_comes_back_finds_everything_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves while the chunks of a step are handed out, with two steps under way, and comes back later; meanwhile
    one of them ends a request. Red if a step is planned before those under way may land: it would name the ended one.
    """
    ends = (5, 2, 3, 4)
    end_after(monkeypatch, dict(enumerate(ends)))
    engine = behind()
    launch = engine.runner.launch

    def watched(plan: StepPlan) -> Flight:
        assert all(not sequence.ended for sequence in plan.finishing)
        return launch(plan)

    monkeypatch.setattr(engine.runner, "launch", watched)
    lives = Lives()
    for i in range(4):
        engine.submit(request(f"r{i}", TEXTS[i], seed=i, max_frames=9))
    while engine._alive or engine._out or engine._urgent:
        for chunk in engine.chunks():
            lives.take(chunk)
            break
    assert not list(engine.chunks())
    for i, frames in enumerate(ends):
        (heard,) = lives.of[f"r{i}"]
        assert_sound(heard)
        assert (heard.frames, heard.reason) == (frames, FinishReason.STOP)
    engine.assert_empty()


@pytest.mark.parametrize("steps_behind", [0, 1])
@pytest.mark.parametrize("chunk_frames", [1, 3])
def test_delivered_pcm_belongs_to_its_receiver(steps_behind: int, chunk_frames: int) -> None:
    """It stays what it was while later steps run. Red if the flight's landing place is the program's own output."""
    engine, kept = ToyEngine(steps_behind=steps_behind, chunk_frames=chunk_frames), list[tuple[np.ndarray, bytes]]()
    output = engine.runner.program.packed_output.numpy()

    def on_chunk(chunk: AudioChunk) -> None:
        assert not np.shares_memory(chunk.pcm, output)
        kept.append((chunk.pcm, chunk.pcm.tobytes()))

    listen(engine, requests(6), on_chunk)
    assert all(pcm.tobytes() == then for pcm, then in kept)


class Landed:
    """Stands for the event of a GPU's flight."""

    def synchronize(self) -> None:
        pass


def test_a_landing_place_is_copied_exactly_when_it_is_used_again() -> None:
    """A GPU's flight lands in pinned memory that a later one overwrites; on a CPU it has memory of its own already.
    Red if the copy is left out on the one side, or made on the other.
    """
    runner = ToyEngine().runner
    books = runner.config.num_codebooks
    for done, copied in ((Landed(), True), (None, False)):
        landing = np.random.default_rng(0).random((2, HOP + books + 1), dtype=np.float32)
        before = landing.copy()
        output = runner.collect(Flight(StepPlan((), ()), landing, done))  # type: ignore[arg-type]
        assert output is not None
        assert np.shares_memory(output.pcm, landing) is not copied
        assert np.shares_memory(output.codes, landing) is not copied
        landing[:] = 7
        assert np.array_equal(output.pcm, before[:, :HOP]) is copied


def test_only_zero_or_one_step_behind() -> None:
    """Every buffer that host and device pass on to each other exists for two steps under way."""
    with pytest.raises(ValueError, match="steps_behind must lie in"):
        ToyEngine(steps_behind=2)
    with pytest.raises(ValueError, match="steps_behind must lie in"):
        ToyEngine(steps_behind=-1)
