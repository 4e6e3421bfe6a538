"""The one interface through which the harness knows an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ttsbench.core.chunk import AudioChunk
from ttsbench.core.request import SamplingParams, SpeechRequest, TextLayout


@dataclass(frozen=True)
class EngineInfo:
    """What an engine says about itself; stored with every result."""

    name: str
    model: str
    mode: str
    """"fused" or "two_stage"."""
    sample_rate_hz: int
    hop_samples: int
    """PCM samples per codec frame."""
    num_codebooks: int
    max_num_seqs: int
    max_model_len: int
    determinism: str
    """"none", "seeded" or "batch_invariant" (see docs/determinism.md)."""
    device: str
    dtype: str
    """Of talker and code predictor."""
    codec_dtype: str
    reports_frames: bool
    speakers: tuple[str, ...]
    languages: tuple[str, ...]
    default_sampling: SamplingParams
    default_text_layout: TextLayout
    default_max_frames: int


class Engine(Protocol):
    """Speech in, audio chunks out. Calls come from one thread; `chunks` does the work."""

    def info(self) -> EngineInfo: ...

    def submit(self, request: SpeechRequest) -> None:
        """Queue a request; its failure, whenever it shows, arrives as a final chunk. Raises ValueError only for an id
        that is still in use.
        """

    def chunks(self, stopping: Callable[[], bool] = lambda: False) -> Iterator[AudioChunk]:
        """Chunks of all requests as they appear, until nothing submitted is left; or, between two steps of the engine,
        until `stopping` says so, with requests left as they are. May be called again at any time.
        """

    def cancel(self, request_id: str) -> bool:
        """End a request now: all it holds is freed, one final chunk with reason CANCELLED follows. False if it had
        ended.
        """

    def close(self) -> None: ...
