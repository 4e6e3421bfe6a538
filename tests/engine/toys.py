"""A real engine around a toy checkpoint, and what it said, per request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.models.qwen3_tts.exactness import toy
from ttsbench.core import AudioChunk, DrawParams, FinishReason, NamedVoice, SamplingParams, SpeechRequest, TextLayout
from ttsbench.engine import frame
from ttsbench.engine.fused import FusedEngine, FusedOptions
from ttsbench.engine.runner import StepOutput
from ttsbench.engine.scheduler import StepPlan
from ttsbench.kernels.draw import Drawn, DrawSettings, FirstCodeRules, RowNorm, Rows
from ttsbench.kernels.draw.philox import frame_uniforms
from ttsbench.models.qwen3_tts.prompt import Conditioning, Prompt

TOY = "toy-custom-voice"
HOP = 1920
GREEDY = SamplingParams(DrawParams(do_sample=False), DrawParams(do_sample=False))
TEXTS = (
    "Hello there.",
    "It's nine o'clock, and nobody is in the garden.",
    "Why?",
    "The small boat drifted slowly down the river while we watched from the bridge.",
    "One, two, three.",
    "Please close the window before the rain comes in.",
    "Go!",
    "She counted seven white geese crossing the frozen field.",
)


@dataclass
class Heard:
    """What one request got back."""

    chunks: list[AudioChunk] = field(default_factory=list)
    codes: list[np.ndarray] = field(default_factory=list)

    @property
    def pcm(self) -> np.ndarray:
        return np.concatenate([chunk.pcm for chunk in self.chunks])

    @property
    def frames(self) -> int:
        return self.chunks[-1].frames[1]

    @property
    def reason(self) -> FinishReason:
        finish = self.chunks[-1].finish
        assert finish is not None
        return finish.reason


def toy_prompt(request: SpeechRequest, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Prompt:
    """The prompt of a request to the toy CustomVoice checkpoint."""
    assert isinstance(request.voice, NamedVoice)
    builder = toy(TOY, device, dtype).prompts
    layout = request.text_layout or TextLayout.STREAMING
    return builder.build(
        request.text, request.language, layout, Conditioning(builder.named_speaker(request.voice.speaker))
    )


def request(name: str, text: str = TEXTS[0], **changes: Any) -> SpeechRequest:
    made = SpeechRequest(name, name, text, NamedVoice("serena"), seed=crc32(text.encode()) % 1000, max_frames=12)
    return replace(made, **changes)


def requests(count: int, **changes: Any) -> list[SpeechRequest]:
    """Different texts, seeds and length limits."""
    made = [request(f"r{i}", TEXTS[i % len(TEXTS)], seed=100 + i, max_frames=6 + 3 * (i % 4)) for i in range(count)]
    return [replace(r, **changes) for r in made]


class ToyEngine(FusedEngine):
    """A fused engine over a toy checkpoint that also keeps the codes of every emitted frame."""

    def __init__(
        self,
        make_prompt: Callable[[SpeechRequest], Prompt] | None = None,
        checkpoint: str = TOY,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        **options: Any,
    ) -> None:
        loaded = toy(checkpoint, device, dtype)
        make_prompt = make_prompt or partial(toy_prompt, device=device, dtype=dtype)
        settings = FusedOptions(**{"max_num_seqs": 4, "max_model_len": 256, "block_size": 8, **options})
        super().__init__(loaded.config, loaded.model.talker, loaded.codec.decoder, 24000, make_prompt, settings)
        self.heard: dict[str, Heard] = {}

    def _commit(self, plan: StepPlan, output: StepOutput) -> None:
        for row, sequence in enumerate(plan.finishing):
            if not output.ended[row] and not sequence.ended:
                self.heard.setdefault(sequence.request.id, Heard()).codes.append(output.codes[row])
        super()._commit(plan, output)

    def speak(
        self, asked: Iterable[SpeechRequest], on_chunk: Callable[[AudioChunk], None] | None = None
    ) -> dict[str, Heard]:
        """Submit all requests in order and listen to the end."""
        for one in asked:
            self.submit(one)
        for chunk in self.chunks():
            self.heard.setdefault(chunk.request_id, Heard()).chunks.append(chunk)
            if on_chunk is not None:
                on_chunk(chunk)
        return self.heard

    def assert_empty(self) -> None:
        """Nothing is held by anybody."""
        scheduler = self.scheduler
        assert not scheduler.running
        assert not scheduler.waiting
        assert scheduler.slots.free == scheduler.slots.num_slots
        assert scheduler.blocks.free == scheduler.blocks.num_blocks
        assert not self._alive
        assert self._next_prompt is None
        assert not self._suspended
        assert not self._out
        assert not self._urgent
        assert not self._flights


def whole_decode(codes: list[np.ndarray], checkpoint: str = TOY) -> Tensor:
    """PCM [F * hop] of codes decoded in one piece."""
    with torch.inference_mode():
        return toy(checkpoint).codec.decoder.decode(torch.from_numpy(np.stack(codes))[None])[0]


def assert_sound(heard: Heard, sample_rate_hz: int = 24000) -> None:
    """Frames 0..N once each and in order; one final chunk, the last; N x hop samples."""
    position = 0
    for index, chunk in enumerate(heard.chunks):
        assert chunk.index == index
        assert chunk.frames[0] == position
        position = chunk.frames[1]
        assert len(chunk.pcm) == (chunk.frames[1] - chunk.frames[0]) * HOP
        assert chunk.sample_rate_hz == sample_rate_hz
        assert chunk.final == (index == len(heard.chunks) - 1)
    times = [chunk.emitted_at_ns for chunk in heard.chunks]
    assert times == sorted(times)


FirstLogits = Callable[[Tensor, Rows, FirstCodeRules], Tensor]
BookLogits = Callable[[int, Tensor, Rows], Tensor]


def change_logits(
    monkeypatch: pytest.MonkeyPatch, first: FirstLogits | None = None, book: BookLogits | None = None
) -> None:
    """Put `first` between the talker's head and the draw of codebook 0, and `book` before the draws of the others.

    They may be captured in a graph: what they need must be on the device already, and shapes fixed.
    """
    draw_first_code, draw_code = vars(frame)["draw_first_code"], vars(frame)["draw_code"]  # perhaps changed already

    def changed_first(
        logits: Tensor, rows: Rows, settings: DrawSettings, rules: FirstCodeRules, drawn: Drawn, table: Tensor,
        out: Tensor,
    ) -> None:  # fmt: skip
        draw_first_code(
            logits if first is None else first(logits, rows, rules), rows, settings, rules, drawn, table, out
        )

    def changed_book(
        number: int, logits: Tensor, rows: Rows, settings: DrawSettings, drawn: Drawn, table: Tensor | None,
        out: Tensor | None, norm: RowNorm | None = None,
    ) -> None:  # fmt: skip
        changed = logits if book is None else book(number, logits, rows)
        draw_code(number, changed, rows, settings, drawn, table, out, norm)

    monkeypatch.setattr(frame, "draw_first_code", changed_first)
    monkeypatch.setattr(frame, "draw_code", changed_book)


def noise_decides(number: int, logits: Tensor, rows: Rows) -> Tensor:
    """Logits of which every way of drawing takes the code that the row's random number names."""
    uniforms = frame_uniforms(rows.seeds[rows.slots], rows.frames, 16)[:, number]
    return torch.full_like(logits, -1e9).scatter(1, (uniforms * 64).long()[:, None], 1e9)


def force_codes(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, int], Tensor]:
    """Let the noise alone decide every code. What the talker says all the same is put into the dict that is returned,
    by seed and frame.
    """
    seen: dict[tuple[int, int], Tensor] = {}

    def first(logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
        keys = zip(rows.seeds[rows.slots].tolist(), rows.frames.tolist(), strict=True)
        seen.update(zip(keys, logits.clone(), strict=True))
        return noise_decides(0, logits, rows)

    change_logits(monkeypatch, first, noise_decides)
    return seen


def end_after(monkeypatch: pytest.MonkeyPatch, ends: dict[int, int], device: str = "cpu") -> None:
    """Make the model draw end of speech at frame `ends[seed]` of the request with that seed, and never elsewhere."""
    seeds = torch.tensor(list(ends), dtype=torch.int64, device=device)
    frames = torch.tensor(list(ends.values()), dtype=torch.int64, device=device)

    def first(logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
        here = (rows.seeds[rows.slots][:, None] == seeds) & (rows.frames[:, None] == frames)
        changed = logits.clone()
        changed[:, rules.eos] = torch.where(here.any(dim=1), 1e9, -1e9).to(logits.dtype)
        return changed

    change_logits(monkeypatch, first)


@contextmanager
def no_waiting() -> Iterator[None]:
    """An operation that makes the host wait for the device raises; waiting for an event is the collector's own."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
