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


@dataclass(frozen=True)
class Finish:
    """The end of a request. `code` and `detail` say why for FAILED, and are empty otherwise."""

    reason: FinishReason
    code: str = ""
    detail: str = ""


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

    @property
    def final(self) -> bool:
        return self.finish is not None
