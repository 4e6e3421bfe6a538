"""Hundreds of random cancellations under load, ids and slots in use again at once, and nobody else notices."""

from __future__ import annotations

import gc
import random
import wave
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.toys import TEXTS, Heard, ToyEngine, assert_sound, change_logits, noise_decides, request
from ttsbench.core import AudioChunk, FinishReason, SamplingParams, SpeechRequest
from ttsbench.kernels.draw import FirstCodeRules, Rows

LASTING = SamplingParams(min_frames=99)
SPOKEN = [request("one", TEXTS[i], seed=10 + i, max_frames=1 + i, sampling=LASTING) for i in range(8)]
SLOTS = 4
TOLERANCE = {"seeded": 1e-4, "batch_invariant": 0.0}
"""Of full scale: at `seeded`, with codes forced, sums of another batch layout add in another order; at
`batch_invariant` codes are drawn and every byte is the same."""


@dataclass
class Load:
    """As many ids as twice the slots, always in use: who ends or is cancelled is followed under the same id at once."""

    engine: ToyEngine
    rng: random.Random
    cancellations: int
    running: dict[str, tuple[SpeechRequest, Heard]] = field(default_factory=dict)
    whole: list[tuple[SpeechRequest, Heard]] = field(default_factory=list)
    ending: dict[str, list[tuple[SpeechRequest, Heard]]] = field(default_factory=dict)
    """Cancelled ones whose last chunks have not been heard yet."""

    def run(self) -> None:
        for number in range(2 * SLOTS):
            self.follow(f"id{number}")
        for chunk in self.engine.chunks():
            self.take(chunk)
            while self.cancellations and self.rng.random() < 0.4:
                self.cancel(self.rng.choice(sorted(self.running)))

    def follow(self, name: str) -> None:
        one = replace(self.rng.choice(SPOKEN), id=name)
        self.running[name] = one, Heard()
        self.engine.submit(one)

    def cancel(self, name: str) -> None:
        if not self.engine.cancel(name):
            return  # it has ended, and its last chunk is on its way
        self.cancellations -= 1
        self.ending.setdefault(name, []).append(self.running[name])
        self.follow(name)

    def take(self, chunk: AudioChunk) -> None:
        queue = self.ending.get(chunk.request_id)
        one, heard = queue[0] if queue else self.running[chunk.request_id]
        heard.chunks.append(chunk)
        if not chunk.final:
            return
        assert_sound(heard)
        if queue:
            assert heard.reason is FinishReason.CANCELLED
            del queue[0]
            return
        assert heard.reason is FinishReason.LENGTH
        self.whole.append((one, heard))
        del self.running[chunk.request_id]
        if self.cancellations:
            self.follow(chunk.request_id)


def disturbed(engine: ToyEngine, cancellations: int, seed: int = 0) -> list[tuple[SpeechRequest, Heard]]:
    """The requests that were heard to their end under the load."""
    load = Load(engine, random.Random(seed), cancellations)
    load.run()
    engine.assert_empty()
    assert not load.running
    assert not any(load.ending.values())
    assert load.cancellations == 0
    engine.heard.clear()
    return load.whole


def undisturbed(engine: ToyEngine) -> dict[int, np.ndarray]:
    """PCM of every request alone, by seed."""
    alone = {one.seed: engine.speak([replace(one, id=f"alone{one.seed}")]) for one in SPOKEN}
    return {seed: heard[f"alone{seed}"].pcm for seed, heard in alone.items()}


def compare(
    whole: list[tuple[SpeechRequest, Heard]], alone: dict[int, np.ndarray], tolerance: float, folder: Path
) -> None:
    """Every utterance equals that of its request alone; audio of those that do not stays in `folder`."""
    assert {one.seed for one, _ in whole} == set(alone), "every request is heard at least once"
    wrong = []
    for number, (one, heard) in enumerate(whole):
        gap = float(np.abs(heard.pcm - alone[one.seed]).max())
        if not gap <= tolerance:
            wrong.append(f"{one.text!r} is off by {gap:.1e}: {keep(folder / f'{number}.wav', heard.pcm)}, alone "
                         f"{keep(folder / f'{number}_alone.wav', alone[one.seed])}")  # fmt: skip
    assert not wrong, "\n".join(wrong)


def keep(path: Path, pcm: np.ndarray) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 24000, 0, "NONE", ""))
        file.writeframes((np.nan_to_num(pcm).clip(-1, 1) * 32767).astype("<i2").tobytes())
    return path


class Forced:
    """Makes every code a function of (seed, frame, codebook) alone, so that rounding cannot send a stream elsewhere.

    `gap` is the largest relative difference between two logits of codebook 0 of one (seed, frame): what talker and
    cache have made of a request's own past. Known where steps run in Python.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gap = 0.0
        self._first: dict[tuple[int, int], Tensor] = {}
        change_logits(monkeypatch, self._talker, noise_decides)

    def _talker(self, logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
        if not logits.is_cuda:
            keys = zip(rows.seeds[rows.slots].tolist(), rows.frames.tolist(), strict=True)
            for key, row in zip(keys, logits, strict=True):
                first = self._first.setdefault(key, row.clone())
                self.gap = max(self.gap, float((row - first).abs().max() / first.abs().max()))
        return noise_decides(0, logits, rows)


def check(level: str, device: str, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch, eager: bool) -> None:
    invariant = level == "batch_invariant"
    forced = None if invariant else Forced(monkeypatch)
    engine = ToyEngine(
        device=device, max_num_seqs=SLOTS, batch_invariant=invariant, steps_behind=1, enforce_eager=eager
    )
    alone, whole, held = undisturbed(engine), list[tuple[SpeechRequest, Heard]](), None
    for seed, share in enumerate((count // 5, count - count // 5)):
        whole += disturbed(engine, share, seed)
        held = device_memory(held) if device == "cuda" else None
    compare(whole, alone, TOLERANCE[level], folder)
    assert forced is None or forced.gap < TOLERANCE[level]


def device_memory(before: int | None) -> int:
    """Bytes in use; as many as `before`, which was after a shorter load."""
    gc.collect()
    torch.cuda.synchronize()
    now = torch.cuda.memory_allocated()
    assert before is None or now == before
    return now


@pytest.mark.parametrize(("level", "cancellations"), [("seeded", 500), ("batch_invariant", 100)])
def test_neighbours_of_the_cancelled_are_as_if_alone(
    level: str, cancellations: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots, blocks, ids, prompts and steps under way are all given back, too. Red if `start` leaves codes seen, block
    table or the codec's past in the slot, if `cancel` frees a step late, if a step's rows are found by id, or if a
    request's second chunk may come before its first.
    """
    check(level, "cpu", cancellations, tmp_path, monkeypatch, eager=True)


@pytest.mark.gpu
@pytest.mark.usefixtures("full_float32")
@pytest.mark.parametrize(
    ("level", "cancellations", "eager"),
    [("seeded", 500, False), ("seeded", 60, True), ("batch_invariant", 200, False), ("batch_invariant", 30, True)],
)
def test_neighbours_of_the_cancelled_are_as_if_alone_on_a_gpu(
    level: str, cancellations: int, eager: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same through two streams, by graphs and by Python, and device memory is flat. Red also if a slot's codec is
    reset on the talker's stream, or if a request's prompt stays.
    """
    check(level, "cuda", cancellations, tmp_path, monkeypatch, eager)
