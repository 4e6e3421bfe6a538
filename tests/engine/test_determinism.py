"""The levels of docs/determinism.md: what a seed fixes at each, and what it does not.

`seeded`: noise belongs to the request; equal bytes in the same batch layout; across layouts only float rounding
differs. `batch_invariant`: codes and PCM byte-equal whatever else runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.toys import Heard, ToyEngine, change_logits, force_codes, request, requests, toy_prompt
from ttsbench.core import AudioChunk, SpeechRequest, TextLayout
from ttsbench.engine import fused
from ttsbench.engine.runner import Flight, Runner
from ttsbench.engine.scheduler import StepPlan
from ttsbench.kernels.draw import FirstCodeRules, Rows, reference
from ttsbench.kernels.draw.types import RowDraws
from ttsbench.kernels.invariant import is_fixed

ASKED = requests(8)
Noise = dict[tuple[int, int, int], float]


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> Noise:
    """Every uniform the engine draws with, by (seed, frame, codebook)."""
    drawn: Noise = {}
    inner = reference.draw_codes
    asked: list[tuple[int, Rows]] = []

    def first(logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
        asked.append((0, rows))
        return logits

    def book(number: int, logits: Tensor, rows: Rows) -> Tensor:
        asked.append((number, rows))
        return logits

    def draw_codes(logits: Tensor, draws: RowDraws, uniforms: Tensor) -> Tensor:
        number, rows = asked.pop()
        for seed, frame, uniform in zip(rows.seeds[rows.slots].tolist(), rows.frames.tolist(), uniforms, strict=True):
            drawn[seed, frame, number] = float(uniform)
        return inner(logits, draws, uniforms)

    change_logits(monkeypatch, first, book)
    monkeypatch.setattr(reference, "draw_codes", draw_codes)
    return drawn


def cancelling(engine: ToyEngine, name: str, at: int) -> Callable[[AudioChunk], None]:
    def on_chunk(chunk: AudioChunk) -> None:
        if chunk.request_id == name and chunk.index == at:
            engine.cancel(name)

    return on_chunk


def run(asked: list[SpeechRequest], cancel: str = "", **options: Any) -> dict[str, Heard]:
    engine = ToyEngine(**options)
    return engine.speak(asked, cancelling(engine, cancel, 2) if cancel else None)


def shuffled(seed: int) -> list[SpeechRequest]:
    order = list(ASKED)
    random.Random(seed).shuffle(order)
    return order


LAYOUTS: list[dict[str, Any]] = [
    {"asked": ASKED, "max_num_seqs": 1},
    {"asked": ASKED, "max_num_seqs": 8},
    {"asked": shuffled(1), "max_num_seqs": 8},
    {"asked": shuffled(2), "max_num_seqs": 3, "max_num_batched_tokens": 80, "block_size": 5},
    {
        "asked": [*ASKED, request("doomed", "A neighbour that leaves early.", max_frames=40)],
        "max_num_seqs": 8,
        "cancel": "doomed",
    },
]
"""Concurrency 1 and 8, two more admission orders, another budget and page size, a neighbour cancelled midway."""


@pytest.mark.parametrize("layout", range(1, len(LAYOUTS)))
def test_batch_invariant_is_byte_equal(layout: int) -> None:
    """Red if rows share a forward pass (`_schedule` returning the plan whole), or prompts are cut by the budget."""
    first = run(**LAYOUTS[0], batch_invariant=True)
    other = run(**LAYOUTS[layout], batch_invariant=True)
    for one in ASKED:
        assert np.array_equal(np.stack(first[one.id].codes), np.stack(other[one.id].codes))
        assert first[one.id].pcm.tobytes() == other[one.id].pcm.tobytes()
        assert first[one.id].reason == other[one.id].reason


@pytest.mark.parametrize("budget", [71, 128, 300, 2000])
def test_batch_invariant_cuts_prompts_by_position_alone(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long prompts run in the same pieces under any budget: at most 64 rows, cut at multiples of 64. Red if a chunk
    runs as the scheduler granted it, or if the scheduler grants other than whole tiles.
    """
    pieces: dict[str, list[tuple[int, int]]] = {}

    class Watched(Runner):
        def launch(self, plan: StepPlan) -> Flight:
            for chunk in plan.prefill:
                pieces.setdefault(chunk.sequence.request.id, []).append((chunk.start, chunk.rows))
            return super().launch(plan)

    monkeypatch.setattr(fused, "Runner", Watched)
    long = " ".join([ASKED[3].text] * 6)
    asked = [request(f"l{i}", long[i:], text_layout=TextLayout.NON_STREAMING, max_frames=2) for i in range(3)]
    ToyEngine(max_num_seqs=8, max_model_len=1024, max_num_batched_tokens=budget, batch_invariant=True).speak(asked)
    for one in asked:
        rows = len(toy_prompt(one).rows)
        assert rows > 128
        assert pieces[one.id] == [(start, min(64, rows - start)) for start in range(0, rows, 64)]


def test_seeded_repeats_itself_in_the_same_layout() -> None:
    first, again = run(ASKED), run(ASKED)
    for one in ASKED:
        assert first[one.id].pcm.tobytes() == again[one.id].pcm.tobytes()


@pytest.mark.parametrize("layout", range(1, len(LAYOUTS)))
def test_seeded_noise_is_the_requests_own(layout: int, noise: Noise) -> None:
    """The very same numbers for (seed, frame, codebook), whoever else runs: red with any generator that keeps state."""
    run(**LAYOUTS[0])
    before = dict(noise)
    noise.clear()
    run(**LAYOUTS[layout])
    shared = [key for key in before if key in noise]
    assert {(seed, book) for seed, _, book in shared} == {(one.seed, book) for one in ASKED for book in range(16)}
    assert all(before[key] == noise[key] for key in shared)


@pytest.mark.parametrize("layout", range(1, len(LAYOUTS)))
def test_seeded_differs_by_rounding_only(layout: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With codes forced to be a function of the noise alone, logits and PCM agree across layouts to 1e-4 of full scale:
    float32 GEMMs of other shapes add in another order. Red if a neighbour's row or a former owner's state leaks in."""
    seen = force_codes(monkeypatch)
    heard = run(**LAYOUTS[0])
    logits = dict(seen)
    seen.clear()
    other = run(**LAYOUTS[layout])
    for one in ASKED:
        assert heard[one.id].frames == other[one.id].frames == one.max_frames
        assert np.abs(heard[one.id].pcm - other[one.id].pcm).max() < 1e-4
        for frame in range(one.max_frames):
            key = (one.seed, frame)
            assert float((logits[key] - seen[key]).abs().max()) < 1e-4 * float(logits[key].abs().max())


def test_a_seed_is_a_seed() -> None:
    """Same seed same codes, another seed other codes, and 0 is as good as any."""
    texts = {name: request(name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))}
    heard = run(list(texts.values()), batch_invariant=True)
    assert heard["a"].pcm.tobytes() == heard["b"].pcm.tobytes()
    assert not np.array_equal(np.stack(heard["a"].codes), np.stack(heard["c"].codes))


def test_sampling_settings_are_the_requests_own() -> None:
    """A greedy and a sampled request side by side: each as if alone, at batch_invariant bytes and all."""
    greedy = replace(
        request("g"),
        sampling=replace(request("g").sampling, talker=replace(request("g").sampling.talker, do_sample=False)),
    )
    together = run([greedy, request("s")], batch_invariant=True)
    for one in (greedy, request("s")):
        assert together[one.id].pcm.tobytes() == run([one], batch_invariant=True)[one.id].pcm.tobytes()


@pytest.mark.parametrize("invariant", [False, True])
def test_all_that_a_gpu_is_given_is_cut_alike_at_batch_invariant(
    invariant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both streams, prompts among it, and what is captured for them; streams that are none stand in. Red when the
    codec's stream, or the warm-up, leaves the level out.
    """
    runner = ToyEngine(batch_invariant=invariant).runner
    seen = []

    class Stream:
        def wait_stream(self, other: object) -> None:
            pass

        def synchronize(self) -> None:
            pass

    class Captured:
        stream = Stream()

        def capture(self, key: object, part: Callable[[], None]) -> None:
            seen.append(is_fixed())

    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    for name, value in {"on_gpu": True, "main": Stream(), "side": Stream(), "graphs": Captured()}.items():
        monkeypatch.setattr(runner, name, value, raising=False)
    monkeypatch.setattr(runner, "options", replace(runner.options, graphs=True))
    with runner.context():
        seen.append(is_fixed())
    with runner._side_of_main():
        seen.append(is_fixed())
    runner._ready("decode", 1)
    assert seen == [invariant] * 3
    assert not is_fixed()
