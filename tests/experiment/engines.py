"""An engine that follows a script, and the corpus rows to hand it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ttsbench.core import (
    AudioChunk,
    EngineInfo,
    Finish,
    FinishReason,
    NamedVoice,
    SamplingParams,
    SpeechRequest,
    TextLayout,
)
from ttsbench.corpus import CorpusRow
from ttsbench.experiment.drive import Job
from ttsbench.experiment.rows import RowPlan

HOP = 4
PLAN = RowPlan(NamedVoice("ann"), "auto", SamplingParams(), TextLayout.STREAMING, seed=7, max_frames=100)


def row(name: str, text: str = "Hello.") -> CorpusRow:
    return CorpusRow(name, text, prompt_text=None, prompt_audio=None, ground_truth_audio=None, line=1)


def jobs(*names: str) -> list[Job]:
    return [Job(index, row(name), 1) for index, name in enumerate(names)]


def chunk(
    request_id: str, index: int = 0, frames: tuple[int, int] = (0, 1), finish: Finish | None = None
) -> AudioChunk:
    pcm = np.full((frames[1] - frames[0]) * HOP, 0.25, dtype=np.float32)
    return AudioChunk(request_id, index, frames, pcm, 24_000, 10**9, finish)


class ScriptedEngine:
    """Gives every request `frames` chunks of one frame, in turn, and ends it with the last."""

    def __init__(self, frames: int = 3) -> None:
        self.frames = frames
        self.alive: dict[str, int] = {}
        self.most_alive = 0
        self.submitted: list[str] = []
        self.cancelled: list[str] = []
        self._out: list[AudioChunk] = []

    def info(self) -> EngineInfo:
        raise NotImplementedError

    def submit(self, request: SpeechRequest) -> None:
        self.submitted.append(request.utterance_id)
        self.alive[request.id] = 0
        self.most_alive = max(self.most_alive, len(self.alive))

    def chunks(self, stopping: Callable[[], bool] = lambda: False) -> Iterator[AudioChunk]:
        while self._out or (self.alive and not stopping()):
            for request_id, done in list(self.alive.items()):
                self._out.append(self._next(request_id, done))
            while self._out:
                yield self._out.pop(0)

    def _next(self, request_id: str, done: int) -> AudioChunk:
        self.alive[request_id] = done + 1
        last = done + 1 == self.frames
        if last:
            del self.alive[request_id]
        return chunk(request_id, done, (done, done + 1), Finish(FinishReason.STOP) if last else None)

    def cancel(self, request_id: str) -> bool:
        done = self.alive.pop(request_id, None)
        if done is None:
            return False
        self.cancelled.append(request_id)
        self._out.append(chunk(request_id, done, (done, done), Finish(FinishReason.CANCELLED)))
        return True

    def close(self) -> None:
        """Nothing is held."""
