"""What an engine gives back: a run of codec frames as PCM, and how the utterance ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


class FinishReason(StrEnum):
    """How a request ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    FAILED = "failed"


class EmitReason(StrEnum):
    """Why a chunk was emitted when it was."""

    FIRST = "first"
    THRESHOLD = "threshold"
    FLUSH = "flush"
    CANCEL = "cancel"


@dataclass(frozen=True)
class Finish:
    """The end of a request. `code` and `detail` say why for FAILED, and are empty otherwise."""

    reason: FinishReason
    code: str = ""
    detail: str = ""
    frames_generated: int | None = None
    """Counted where frames are generated, not where they are emitted; None when the engine does not say."""
    frame_limit: int | None = None
    """Frames the request could have had: `max_frames`, or what the model's length leaves; None when unknown."""


@dataclass(frozen=True)
class AudioChunk:
    """PCM of the codec frames [frames[0], frames[1]) of one request.

    `pcm` is mono, float32 in [-1, 1] or int16, shape [(frames[1] - frames[0]) * hop], owned by the receiver. Exactly
    one chunk per request has `finish`; it is the last one and may hold no frames.
    """

    request_id: str
    index: int
    frames: tuple[int, int]
    pcm: np.ndarray
    sample_rate_hz: int
    emitted_at_ns: int
    """Monotonic clock, nanoseconds."""
    finish: Finish | None = None
    context_frames: int | None = None
    """Earlier frames decoded again for continuity and trimmed off; None when the engine does not say."""
    chunk_target: int | None = None
    """Frames at which the chunk was to be emitted; None when the engine does not say or holds all back to the end."""
    reason: EmitReason | None = None
    """None when the engine does not say."""

    @property
    def final(self) -> bool:
        return self.finish is not None
