"""A file of `ttsbench bench`: one engine start, timed round by round at one concurrency after another, untraced.

Written when the engine is loaded and replaced as a whole after every round, so that what was measured survives what
comes later. Every round is here, the priming ones too, and every observation of each.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from ttsbench.records.base import Count, Reason, Record, Seconds, Sha256, UtcTime, canonical_sha256
from ttsbench.records.distribution import Distribution
from ttsbench.records.environment import CodeRevision, Hardware, Placement
from ttsbench.records.manifest import CheckpointRecord, CorpusRecord, RunStatus
from ttsbench.records.settings import EngineRecord, RunSettings


class BenchObservation(Record):
    """One measured request. Times are seconds from the round's first hand-in, on the monotonic clock."""

    row_index: Count
    """Place among the set's rows."""
    utterance_id: str
    """The user's id of the row."""
    seed: Count
    """The row's seed."""
    handed_in_s: Seconds
    """When it was handed to the engine."""
    first_audio_at_s: Seconds | None
    """When the consumer held its first samples."""
    first_audio_at_s_missing: Reason | None = None
    """Why it is null: no sample came."""
    ended_s: Seconds
    """When the consumer held its final chunk."""
    frames: Count
    """Codec frames."""
    samples: Count
    """Samples."""
    chunks: Count
    """Chunks, the final one included."""
    finish_reason: str
    """How the engine ended it: stop, length, cancelled or failed."""
    cause: Reason | None
    """Why its audio does not count: it failed or was cancelled, or its chunks were at fault; null when it counts."""
    digest: str
    """CRC-32 of its PCM bytes, 8 hex digits: equal sound has an equal one."""


class LoadFigures(Record):
    """Speed of one round, or of several pooled: sums divided, never rates averaged."""

    concurrency: Annotated[int, Field(gt=0)]
    """Most requests in the engine at once."""
    wall_s: Seconds
    """From the first hand-in to the last end, start burst and drain included."""
    audio_s: Seconds
    """Audio of the rows that count."""
    audio_s_per_wall_s: Seconds | None
    """Audio throughput: audio_s / wall_s."""
    audio_s_per_wall_s_missing: Reason | None = None
    """Why it is null: no time passed."""
    rtf: Seconds | None
    """RTF of the system: wall_s / audio_s."""
    rtf_missing: Reason | None = None
    """Why it is null: no audio."""
    first_audio_s: Distribution | None
    """From hand-in to first samples in the consumer's hands, of the rows that count."""
    first_audio_s_missing: Reason | None = None
    """Why it is null."""
    gap_s: Distribution | None
    """Every time between one chunk with samples of a row and its next."""
    gap_s_missing: Reason | None = None
    """Why it is null."""

    @model_validator(mode="after")
    def _throughput_follows(self) -> Self:
        rate = self.audio_s_per_wall_s
        if rate is not None and abs(rate * self.wall_s - self.audio_s) > 1e-6 * max(1.0, self.audio_s):
            raise ValueError("audio_s_per_wall_s is not audio_s / wall_s")
        return self


class BenchRound(LoadFigures):
    """One pass over the set."""

    number: Count
    """0 is the priming round, the formal ones follow."""
    counted: bool
    """Whether it is in the pooled figures: a formal round that ran to its end."""
    complete: bool
    """Whether every row was handed in and none was cancelled by a stop."""
    rows: Count
    """Rows of the set."""
    peak: Count
    """Most rows in the engine at once, as counted."""
    rows_by_finish: dict[str, Count]
    """Rows that ended, by how."""
    rows_bad: Count
    """Rows whose audio does not count."""
    frames: Count
    """Codec frames of all rows."""
    samples: Count
    """Samples of all rows."""
    consumer_s: Seconds
    """What hashing, checking and counting took, within wall_s."""
    digest: str
    """One hash of all sound, in no order: rounds that said the same have the same."""
    engine_stats: dict[str, JsonValue] | None
    """What the engine told of itself after the round."""
    engine_stats_missing: Reason | None = None
    """Why it is null: it tells nothing."""
    observations: tuple[BenchObservation, ...]
    """Every row that ended, in that order."""

    @model_validator(mode="after")
    def _only_whole_formal_rounds_count(self) -> Self:
        if self.counted != (self.number > 0 and self.complete):
            raise ValueError("a round counts exactly when it is a formal one that ran to its end")
        return self

    @model_validator(mode="after")
    def _observations_add_up(self) -> Self:
        bad = sum(observation.cause is not None for observation in self.observations)
        if (self.rows_bad, sum(self.rows_by_finish.values())) != (bad, len(self.observations)):
            raise ValueError("rows_bad and rows_by_finish are not those of the observations")
        return self


class BenchPooled(LoadFigures):
    """All counted rounds of one concurrency as one."""

    rounds: Annotated[int, Field(gt=0)]
    """Rounds that count."""
    slowest: Seconds | None
    """Smallest audio throughput of a round."""
    slowest_missing: Reason | None = None
    """Why it is null: no time passed in some round."""
    fastest: Seconds | None
    """Largest audio throughput of a round."""
    fastest_missing: Reason | None = None
    """Why it is null."""
    rows_bad: Count
    """Rows whose audio does not count."""


class BenchRecord(Record):
    """The file."""

    schema_version: Literal[1] = 1
    """Version of this record kind; history in `ttsbench.records.reader`."""
    kind: Literal["bench"] = "bench"
    """Record kind."""
    tool_version: str
    """Version of ttsbench."""
    code: CodeRevision
    """The source that ran."""
    status: RunStatus
    """Where the measurement stands."""
    started_at: UtcTime
    """When the engine was ready, by the wall clock."""
    ended_at: UtcTime | None
    """When the last round ended."""
    ended_at_missing: Reason | None = None
    """Why there is no end, such as still running."""
    profile: dict[str, JsonValue]
    """The resolved profile, every default filled in."""
    profile_sha256: Sha256
    """Hash of the resolved profile (`canonical_sha256`)."""
    corpus: CorpusRecord
    """The list the rows came from."""
    checkpoint: CheckpointRecord
    """The weights."""
    engine: EngineRecord
    """What the engine said about itself."""
    settings: RunSettings
    """What was asked for, for all rows alike; `concurrency` is the largest, and nothing is traced."""
    concurrencies: tuple[Annotated[int, Field(gt=0)], ...]
    """Loads to be measured, in their order."""
    rounds_asked: Annotated[int, Field(gt=0)]
    """Formal rounds to be run at each."""
    software: dict[str, str]
    """Versions that bear on the result, by package name."""
    hardware: Hardware
    """The machine."""
    placement: Placement
    """What the process was tied to."""
    rounds: tuple[BenchRound, ...]
    """Every round, in the order they ran."""
    pooled: tuple[BenchPooled, ...]
    """Per concurrency that has a counted round."""

    @model_validator(mode="after")
    def _hash_agrees_with_profile(self) -> Self:
        if self.profile_sha256 != canonical_sha256(self.profile):
            raise ValueError("profile_sha256 is not the hash of profile")
        return self

    @model_validator(mode="after")
    def _samples_are_frames_times_hop(self) -> Self:
        hop = self.engine.hop_samples
        for done in self.rounds:
            if not done.rows_bad and done.samples != done.frames * hop:
                raise ValueError(f"{done.samples} samples are not {done.frames} frames of {hop}")
        return self

    @model_validator(mode="after")
    def _nothing_was_traced(self) -> Self:
        if self.settings.tracing:
            raise ValueError("timed rounds are made without tracing")
        return self

    @model_validator(mode="after")
    def _complete_means_every_round(self) -> Self:
        ran = sum(done.complete for done in self.rounds)
        if self.status is RunStatus.COMPLETE and ran != len(self.concurrencies) * (1 + self.rounds_asked):
            raise ValueError("a complete measurement has every round")
        return self
