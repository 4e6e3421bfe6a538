"""One line of trace.jsonl: which codec frames one emitted chunk carried.

Nothing is validated beyond types. A trace exists to show what an engine did wrong, so it must be able to hold it; the
audit judges.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ttsbench.records.base import Count, Reason, Record
from ttsbench.records.request import FinishName


class TraceRecord(Record):
    """One emission."""

    schema_version: Literal[2] = 2
    """Version of this record kind; history in `ttsbench.records.reader`."""
    kind: Literal["trace"] = "trace"
    """Record kind."""
    row_index: Count
    """Place among the run's rows."""
    utterance_id: str
    """The user's id of the row."""
    attempt: Annotated[int, Field(ge=1)]
    """1 for the first try of the row."""
    index: Count
    """Number of the chunk within its request, as the engine gave it."""
    emitted_at_ns: Count
    """When the chunk appeared, monotonic clock of its sitting's process, nanoseconds."""
    start_frame: int | None
    """First new frame of the chunk."""
    start_frame_missing: Reason | None = None
    """Why it is unknown, such as an engine that does not report frames."""
    end_frame: int | None
    """One past the last new frame."""
    end_frame_missing: Reason | None = None
    """Why it is unknown."""
    context_frames: Count | None
    """Earlier frames decoded again for continuity and trimmed off."""
    context_frames_missing: Reason | None = None
    """Why that is unknown."""
    chunk_target: Count | None
    """Frames at which the chunk was to be emitted. It says when, never what: frames are absolute."""
    chunk_target_missing: Reason | None = None
    """Why that is unknown, such as an utterance held back to its end."""
    samples: Count
    """PCM samples of the chunk."""
    sample_rate_hz: Annotated[int, Field(gt=0)]
    """Sample rate of the chunk."""
    terminal: bool
    """Whether this was a final chunk."""
    reason: Literal["first", "threshold", "flush", "cancel"] | None
    """Why the chunk was emitted when it was."""
    reason_missing: Reason | None = None
    """Why that is unknown."""
    finish_reason: FinishName | None
    """How the request ended; null on a chunk that is not terminal."""
