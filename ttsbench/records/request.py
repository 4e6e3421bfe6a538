"""One line of requests.jsonl: what became of one input row.

Every row gets one, in every outcome. What the engine did is recorded as it happened, even where it was wrong (a short
finish by length, samples that are no multiple of the hop); only our own bookkeeping is validated here.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ttsbench.records.base import Count, Reason, Record, Seconds, Sha256, sha256_of
from ttsbench.records.settings import VoiceRecord

FinishName = Literal["stop", "length", "cancelled", "failed"]


class RowStatus(StrEnum):
    """How a row ended. Only `ok` and `length` rows have audio that can be judged."""

    OK = "ok"
    LENGTH = "length"
    EMPTY = "empty"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INVALID = "invalid"


_FINISH_OF_STATUS = {
    RowStatus.OK: "stop",
    RowStatus.LENGTH: "length",
    RowStatus.EMPTY: "stop",
    RowStatus.CANCELLED: "cancelled",
    RowStatus.INVALID: None,
}
"""A failed row may have finished in any way: the engine can stop cleanly and the disk be full."""


class RequestRecord(Record):
    """One row's outcome."""

    schema_version: Literal[2] = 2
    """Version of this record kind; history in `ttsbench.records.reader`."""
    kind: Literal["request"] = "request"
    """Record kind."""
    row_index: Count
    """Place among the run's rows, from 0 to rows_expected - 1."""
    utterance_id: str
    """The user's id of the row."""
    request_id: str
    """Our id of the request, unique within the run."""
    attempt: Annotated[int, Field(ge=1)]
    """1 for the first try of the row; the latest attempt counts."""
    sitting: Count
    """The sitting that made this attempt; its times start there."""
    status: RowStatus
    """How the row ended."""
    error_code: Reason | None = None
    """Stable word for what went wrong; null when nothing did."""
    error_detail: Reason | None = None
    """The same in a sentence; null when nothing went wrong."""
    text: str
    """The text to speak, as the corpus gives it."""
    text_sha256: Sha256
    """Hash of the text's UTF-8 bytes."""
    voice: VoiceRecord
    """The voice asked for."""
    language_requested: str
    """The language asked for; auto leaves it to the checkpoint."""
    language_effective: str | None
    """The language the prompt was built for."""
    language_effective_missing: Reason | None = None
    """Why it is unknown."""
    seed: Count
    """The request's own seed."""
    max_frames: Annotated[int, Field(gt=0)]
    """The request's frame limit."""
    frame_limit: Count | None
    """Frames the row could have: max_frames, or what the model's length leaves after the prompt."""
    frame_limit_missing: Reason | None = None
    """Why it is unknown, such as a row that was never admitted."""
    frames_generated: Count | None
    """Codec frames the engine generated, counted where they are generated."""
    frames_generated_missing: Reason | None = None
    """Why they are unknown, such as an engine that does not count them apart from what it emits."""
    frames: Count | None
    """Codec frames the engine gave out."""
    frames_missing: Reason | None = None
    """Why they are unknown, such as an engine that does not report frames."""
    samples: Count
    """PCM samples received."""
    sample_rate_hz: Annotated[int, Field(gt=0)] | None
    """Sample rate of the audio received."""
    sample_rate_hz_missing: Reason | None = None
    """Why it is null: no audio arrived."""
    duration_s: Seconds | None
    """Samples / sample rate."""
    duration_s_missing: Reason | None = None
    """Why it is null: no audio arrived."""
    wav_path: str | None
    """The audio, relative to the run folder, with forward slashes."""
    wav_path_missing: Reason | None = None
    """Why there is no file."""
    wav_sha256: Sha256 | None
    """Hash of the file's bytes."""
    wav_sha256_missing: Reason | None = None
    """Why there is no hash: no file."""
    clipped_samples: Count
    """Samples beyond full scale that were clamped when the file was written."""
    chunks: Count
    """Chunks that held at least one sample."""
    finish_reason: FinishName | None
    """What the engine's final chunk said."""
    finish_reason_missing: Reason | None = None
    """Why there is none, such as a row that was never submitted."""
    submitted_s: Seconds | None
    """When the row was handed to the engine; seconds since its sitting began, as all times here, monotonic."""
    submitted_s_missing: Reason | None = None
    """Why it is null: never submitted."""
    first_audio_s: Seconds | None
    """When the first chunk with a sample arrived."""
    first_audio_s_missing: Reason | None = None
    """Why it is null, such as no audio, or audio taken whole from an engine that does not stream."""
    finished_s: Seconds | None
    """When the final chunk arrived."""
    finished_s_missing: Reason | None = None
    """Why it is null."""
    wav_written_s: Seconds | None
    """When the file was safely on disk."""
    wav_written_s_missing: Reason | None = None
    """Why it is null: no file."""

    @model_validator(mode="after")
    def _status_agrees(self) -> Self:
        if self.status in _FINISH_OF_STATUS and self.finish_reason != _FINISH_OF_STATUS[self.status]:
            raise ValueError(f"status {self.status} does not go with finish reason {self.finish_reason}")
        if self.status in (RowStatus.OK, RowStatus.LENGTH) and (self.samples == 0 or self.wav_path is None):
            raise ValueError(f"status {self.status} needs audio: {self.samples} samples, wav_path {self.wav_path}")
        if self.status in (RowStatus.EMPTY, RowStatus.INVALID) and self.samples:
            raise ValueError(f"status {self.status} cannot have {self.samples} samples")
        faulty = self.status in (RowStatus.FAILED, RowStatus.INVALID)
        if self.status is not RowStatus.CANCELLED and faulty != (self.error_code is not None):
            raise ValueError(f"status {self.status} {'needs' if faulty else 'cannot have'} an error_code")
        return self

    @model_validator(mode="after")
    def _audio_fields_agree(self) -> Self:
        if (self.samples > 0) != (self.sample_rate_hz is not None):
            raise ValueError("sample_rate_hz is known exactly when samples arrived")
        expected = None if self.sample_rate_hz is None else self.samples / self.sample_rate_hz
        if self.duration_s is None or expected is None:
            agrees = self.duration_s is expected
        else:
            agrees = abs(self.duration_s - expected) <= 1e-9
        if not agrees:
            raise ValueError(f"duration_s is not samples / sample_rate_hz: {self.duration_s}, {expected}")
        if (self.wav_path is None) != (self.wav_sha256 is None):
            raise ValueError("wav_path and wav_sha256 come together")
        if self.wav_path is not None:
            path = PurePosixPath(self.wav_path)
            if path.is_absolute() or ".." in path.parts or "\\" in self.wav_path:
                raise ValueError(f"wav_path must stay inside the run folder, got {self.wav_path}")
        return self

    @model_validator(mode="after")
    def _text_hash_agrees(self) -> Self:
        if self.text_sha256 != sha256_of(self.text.encode()):
            raise ValueError("text_sha256 is not the hash of text")
        return self

    @model_validator(mode="after")
    def _times_in_order(self) -> Self:
        times = [self.submitted_s, self.first_audio_s, self.finished_s, self.wav_written_s]
        known = [t for t in times if t is not None]
        if known != sorted(known):
            raise ValueError(f"submitted, first audio, finished, written are out of order: {times}")
        return self
