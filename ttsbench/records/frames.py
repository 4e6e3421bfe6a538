"""What the frame trace audit writes: one FramesRow per row, and what they sum up to.

A row is *clean*, *affected* (at least one finding) or *not audited*, with the cause. Figures are of audited rows only;
a run without a trace has none, since nothing was looked at. A frame that was lost at the very end of a row shows only
where the engine says how many frames it generated; rows where it did not are counted, not passed over.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from ttsbench.records.base import Count, Reason, Record, Seconds, Sha256
from ttsbench.records.coverage import Coverage
from ttsbench.records.request import RowStatus

Percent = Annotated[float, Field(ge=0, le=100)]
Position = Literal["first", "steady", "tail"]


class FrameFault(StrEnum):
    """What can be wrong with a request's emissions. One cause can show under several of these."""

    MISSING = "missing"
    """Generated frames that no emission carries; one finding per run of them (a gap event)."""
    REPEATED = "repeated"
    """Frames that an earlier emission had carried."""
    PHANTOM = "phantom"
    """Frames that were never generated."""
    NOT_CONTIGUOUS = "not_contiguous"
    """An emission does not start where the one before it ended, or the first one not at frame 0."""
    OUT_OF_ORDER = "out_of_order"
    """An emission starts before the one before it started."""
    REPLAY = "replay"
    """An emission starts before the furthest frame reached so far (a replay event)."""
    NEGATIVE_RANGE = "negative_range"
    """An emission ends before it starts."""
    EMPTY_EMISSION = "empty_emission"
    """An emission without a frame that is not the terminal."""
    NO_TERMINAL = "no_terminal"
    """The request has no final emission."""
    SECOND_TERMINAL = "second_terminal"
    """One more final emission after the first."""
    AFTER_TERMINAL = "after_terminal"
    """An emission after the final one."""
    FINISH_MISMATCH = "finish_mismatch"
    """The way the request ended, as an emission has it and as its record has it."""
    EMISSION_SAMPLES = "emission_samples"
    """Samples of an emission that are not frames x hop."""
    ROW_SAMPLES = "row_samples"
    """Samples of a whole row that are not frames x hop, or not what its record says."""
    SAMPLE_RATE = "sample_rate"
    """A sample rate that is not the engine's."""
    FOREIGN = "foreign"
    """An emission that names another utterance than the row it stands under."""
    INDEX_REPEATED = "index_repeated"
    """A chunk index that the request has had before."""
    INDEX_NOT_CONSECUTIVE = "index_not_consecutive"
    """A chunk index that does not follow the one before it."""
    TIME_BACKWARDS = "time_backwards"
    """An emission earlier than the one before it, by the monotonic clock."""
    LENGTH_LIMIT = "length_limit"
    """A row cut at the frame limit that has not exactly so many frames, or any row that has more."""


class FrameFinding(Record):
    """One fault, and where it is."""

    fault: FrameFault
    """What is wrong."""
    attempt: Annotated[int, Field(ge=1)]
    """Attempt of the row."""
    emission: Count | None
    """Place among the attempt's emissions, from 0, in the order they were traced; null for the attempt as a whole, and
    for frames lost after the last emission."""
    position: Position | None
    """At the first emission, at the last one or after it, or in between; null for the attempt as a whole."""
    start_frame: int | None
    """First frame concerned; null when the fault is not one of frames."""
    end_frame: int | None
    """One past the last frame concerned; null when the fault is not one of frames."""
    detail: Reason
    """What was expected and what came."""

    @property
    def frames(self) -> int:
        """How many frames are concerned; 0 when the fault is not one of frames."""
        return 0 if self.start_frame is None or self.end_frame is None else self.end_frame - self.start_frame


class FrameCounts(Record):
    """Counts over the emissions of one or more attempts of a row."""

    attempts: Count
    """Attempts audited."""
    emissions: Count
    """Emissions traced."""
    frames_emitted: Count
    """Frames that the emissions carry, each as often as it was carried."""
    frames_generated: Count | None
    """Frames the engine says it generated."""
    frames_generated_missing: Reason | None = None
    """Why that is unknown; frames lost after the last emission cannot be seen then."""
    frames_missing: Count
    """Generated frames that no emission carries."""
    frames_repeated: Count
    """Times a frame was carried once more than it should have been."""
    frames_phantom: Count | None
    """Frames carried that were never generated."""
    frames_phantom_missing: Reason | None = None
    """Why that is unknown."""
    out_of_order: Count
    """Emissions that start before the one before them started."""
    gap_events: Count
    """Runs of missing frames."""
    replay_events: Count
    """Emissions that start before the furthest frame reached so far."""
    terminals: Count
    """Final emissions; as many as attempts when all is well."""


class FramesOutcome(StrEnum):
    """What the audit says of a row."""

    CLEAN = "clean"
    AFFECTED = "affected"
    NOT_AUDITED = "not_audited"


class FramesRow(Record):
    """One row of scores/frames.jsonl, all its attempts together."""

    schema_version: Literal[1] = 1
    """Version of this record kind; history in `ttsbench.records.reader`."""
    kind: Literal["frames"] = "frames"
    """Record kind."""
    row_index: Count
    """Place among the run's rows."""
    utterance_id: str | None
    """The user's id of the row."""
    utterance_id_missing: Reason | None = None
    """Why it is unknown: the row has no record."""
    status: RowStatus | None
    """How the row ended in the run."""
    status_missing: Reason | None = None
    """Why it is unknown: the row has no record."""
    outcome: FramesOutcome
    """What the audit says."""
    cause: Reason | None
    """Stable word for why it was not audited; null for an audited row."""
    cause_detail: Reason | None
    """The same in a sentence; null for an audited row."""
    counts: FrameCounts | None
    """What was counted."""
    counts_missing: Reason | None = None
    """Why there is nothing: the row was not audited."""
    findings: tuple[FrameFinding, ...]
    """Every fault found; empty in a clean row and in one that was not audited."""

    @model_validator(mode="after")
    def _outcome_agrees(self) -> Self:
        if (self.outcome is FramesOutcome.AFFECTED) != bool(self.findings):
            raise ValueError(f"a row with {len(self.findings)} findings cannot be {self.outcome}")
        not_audited = self.outcome is FramesOutcome.NOT_AUDITED
        if not_audited != (self.cause is not None) or not_audited != (self.counts is None):
            raise ValueError(f"a row that is {self.outcome}: cause {self.cause}, counts {self.counts}")
        return self


class FramesByPosition(Record):
    """Frames by where in the row they went wrong."""

    first: Count
    """At the first emission."""
    steady: Count
    """In between."""
    tail: Count
    """At the last emission, or after it."""


class FrameFigures(Record):
    """Sums over the audited rows."""

    trace_sha256: Sha256
    """Hash of the whole lines of trace.jsonl."""
    trace_torn_bytes: Count
    """Size of an unfinished last line, which a killed run leaves; 0 when there is none."""
    emissions_without_record: Count
    """Trace lines that belong to no recorded attempt: of the row a killed run was in, and otherwise frames under a row
    that does not exist."""
    attempts: Count
    """Attempts audited; each must have exactly one terminal."""
    emissions: Count
    """Emissions audited."""
    terminals: Count
    """Final emissions."""
    frames_emitted: Count
    """Frames that the emissions carry."""
    rows_affected: Count
    """Rows with at least one finding."""
    affected_pct: Percent
    """Those rows as a share of the audited ones."""
    affected_upper_95_pct: Percent
    """Largest true share of affected rows that so few are compatible with: the one-sided 95 % bound, exact
    (Clopper-Pearson). With none affected in n rows it is close to 300 / n percent."""
    rows_end_unchecked: Count
    """Audited rows whose engine does not say how many frames it generated: frames lost at their end cannot be seen."""
    frames_missing: Count
    """Generated frames that no emission carries."""
    missing_s: Seconds
    """The same as audio: frames x hop / sample rate."""
    frames_repeated: Count
    """Times a frame was carried once more than it should have been."""
    repeated_s: Seconds
    """The same as audio."""
    frames_phantom: Count
    """Frames carried that were never generated, in the rows whose end was checked."""
    out_of_order: Count
    """Emissions that start before the one before them started."""
    gap_events: Count
    """Runs of missing frames."""
    replay_events: Count
    """Emissions that start before the furthest frame reached so far."""
    missing_by_position: FramesByPosition
    """Missing frames by where in the row they were lost."""
    repeated_by_position: FramesByPosition
    """Repeated frames by where in the row they came again."""
    findings_by_fault: dict[str, Count]
    """Findings of each kind."""
    rows_by_fault: dict[str, Count]
    """Rows with each kind of finding."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return self.rows_affected == 0 and self.emissions_without_record == 0


class FramesSummary(Record):
    """The frame trace audit's verdict on one run."""

    coverage: Coverage
    """Which rows were audited, and why others were not."""
    scorer: dict[str, JsonValue]
    """Everything pinned that decides the figures."""
    scorer_sha256: Sha256
    """Hash of what is pinned."""
    concurrency: Annotated[int, Field(gt=0)]
    """Most rows in the engine at once."""
    hop_samples: Annotated[int, Field(gt=0)]
    """PCM samples per codec frame, as the engine says."""
    sample_rate_hz: Annotated[int, Field(gt=0)]
    """PCM samples per second, as the engine says."""
    figures: FrameFigures | None
    """What was found."""
    figures_missing: Reason | None = None
    """Why there are none, such as a run without a trace."""
