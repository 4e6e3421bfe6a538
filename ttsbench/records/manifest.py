"""The manifest of a run folder (run.json): everything needed to say what a number means.

Written when the run starts, replaced as a whole when it ends. Counts add up, hashes agree with what they stand for, and
a run that claims to be complete has one record for every row.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import JsonValue, model_validator

from ttsbench.records.base import (
    Count,
    Reason,
    Record,
    Seconds,
    Sha256,
    UtcTime,
    canonical_sha256,
    combined_sha256,
)
from ttsbench.records.environment import CodeRevision, Hardware, Placement
from ttsbench.records.settings import EngineRecord, RunSettings


class RunStatus(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    BROKEN = "broken"


class CorpusRecord(Record):
    """The list the rows came from."""

    name: str
    """The corpus' name."""
    path: str
    """Where the list was read."""
    sha256: Sha256
    """Hash of the list file's bytes."""
    locale: str
    """Language of the list, such as en or zh."""
    format: str
    """How its lines were read."""
    rows_in_list: Count
    """Rows the list holds."""
    rows_expected: Count
    """Rows this run was to speak."""
    selection: str
    """Which rows those are, in words that two runs can be compared by; all for the whole list."""


class CheckpointRecord(Record):
    """The weights."""

    name: str
    """Name people know it by."""
    source: str
    """Local path or hub id it was loaded from."""
    files: dict[str, Sha256]
    """Hash of each file that was loaded, by file name."""
    sha256: Sha256
    """One hash for all files (`combined_sha256`)."""

    @model_validator(mode="after")
    def _combined_hash_agrees(self) -> Self:
        if self.sha256 != combined_sha256(self.files):
            raise ValueError("checkpoint sha256 is not the combined hash of its files")
        return self


class RowCounts(Record):
    """How the rows ended. What is neither here nor expected has no record yet."""

    expected: Count
    """Rows this run was to speak."""
    ok: Count
    """Spoken to their end."""
    length: Count
    """Cut at the frame limit."""
    empty: Count
    """Ended without a single sample."""
    cancelled: Count
    """Cancelled by the user or the harness."""
    failed: Count
    """Failed in the engine or while writing."""
    invalid: Count
    """Never submitted, because the row's content cannot be spoken."""

    @property
    def recorded(self) -> int:
        """Rows that have a record, in whatever outcome."""
        return self.ok + self.length + self.empty + self.cancelled + self.failed + self.invalid

    @model_validator(mode="after")
    def _never_more_than_expected(self) -> Self:
        if self.recorded > self.expected:
            raise ValueError(f"counts do not add up: {self.recorded} rows recorded, {self.expected} expected")
        return self


class RunManifest(Record):
    """run.json."""

    schema_version: Literal[1] = 1
    """Version of this record kind; history in `ttsbench.records.reader`."""
    kind: Literal["run"] = "run"
    """Record kind."""
    tool_version: str
    """Version of ttsbench."""
    code: CodeRevision
    """The source that ran."""
    status: RunStatus
    """Where the run stands."""
    created_at: UtcTime
    """When the run folder was made."""
    started_at: UtcTime
    """When this sitting (the first, or the latest resumption) took up its rows, by the wall clock."""
    ended_at: UtcTime | None
    """When this sitting ended, by the wall clock; durations come from the monotonic clock, never from these."""
    ended_at_missing: Reason | None = None
    """Why there is no end, such as still running."""
    profile: dict[str, JsonValue]
    """The resolved profile, every default filled in."""
    profile_sha256: Sha256
    """Hash of the resolved profile (`canonical_sha256`)."""
    corpus: CorpusRecord
    """The list the rows came from."""
    checkpoint: CheckpointRecord | None
    """The weights."""
    checkpoint_missing: Reason | None = None
    """Why they are unknown, such as a remote server."""
    engine: EngineRecord
    """What the engine said about itself."""
    settings: RunSettings
    """What was asked for, for all rows alike."""
    software: dict[str, str]
    """Versions that bear on the result, by package name."""
    hardware: Hardware
    """The machine."""
    placement: Placement
    """What the process was tied to."""
    counts: RowCounts
    """How the rows ended; the latest attempt of each counts."""
    sitting: Count
    """Which sitting this is: 0 at first, one more with every resumption."""
    resumed_rows: Count
    """Rows that earlier sittings had already recorded; 0 in a run made in one go."""
    wall_s: Seconds | None
    """From the first row handed to the engine to the last one finished, monotonic."""
    wall_s_missing: Reason | None = None
    """Why it is null, such as still running, or resumed after a kill (an earlier sitting's time is unknown)."""
    audio_s: Seconds
    """Audio of the rows with status ok, all sittings together."""
    audio_s_per_wall_s: Seconds | None
    """Audio throughput: audio_s / wall_s."""
    audio_s_per_wall_s_missing: Reason | None = None
    """Why it is null."""

    @model_validator(mode="after")
    def _hash_agrees_with_profile(self) -> Self:
        if self.profile_sha256 != canonical_sha256(self.profile):
            raise ValueError("profile_sha256 is not the hash of profile")
        return self

    @model_validator(mode="after")
    def _counts_add_up(self) -> Self:
        if self.counts.expected != self.corpus.rows_expected:
            raise ValueError(f"counts expect {self.counts.expected} rows, the corpus {self.corpus.rows_expected}")
        if self.status is RunStatus.COMPLETE and self.counts.recorded != self.counts.expected:
            raise ValueError(
                f"a complete run records every row: {self.counts.recorded} recorded, {self.counts.expected} expected"
            )
        return self

    @model_validator(mode="after")
    def _throughput_follows(self) -> Self:
        if self.audio_s_per_wall_s is None:
            return self
        if not self.wall_s:
            raise ValueError("audio_s_per_wall_s needs a wall_s above zero")
        if abs(self.audio_s_per_wall_s * self.wall_s - self.audio_s) > 1e-6 * max(1.0, self.audio_s):
            raise ValueError("audio_s_per_wall_s is not audio_s / wall_s")
        return self
