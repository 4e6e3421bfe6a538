"""What the PCM audit writes: one PcmRow per row with everything that looks wrong in its audio, and their summary.

All of it is *inferred*: the audit hears the audio and knows the hop, not what the engine did. A trace, where there is
one, is the better witness.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from ttsbench.records.base import Count, Reason, Record, Seconds, Sha256
from ttsbench.records.coverage import Coverage

Percent = Annotated[float, Field(ge=0, le=100)]


class FaultKind(StrEnum):
    """What was heard."""

    REPEAT = "repeat"
    """A stretch that was played before; strength: its power over the power of the difference, dB."""
    DROPOUT = "dropout"
    """A hole cut into sound, abrupt at both ends; strength: the sound around it over the hole, dB."""
    SPLICE = "splice"
    """Two stretches that do not belong together meet; strength: log odds against speech, less the bar. Negative where
    only the row's being too short for its text speaks for it: the likeliest joint, under the bar by that much."""
    CLICK = "click"
    """A step or spike in the waveform; strength: log odds against speech, less the bar."""
    SILENCE = "silence"
    """Nothing to hear for longer than speech pauses; strength: its length over the longest allowed."""
    ROOM_TONE = "room_tone"
    """A long end without speech in it, as runaways have; strength: its length over the longest allowed."""
    CLIPPING = "clipping"
    """Waveform cut flat at its top; strength: samples in it."""
    STUCK = "stuck"
    """One value other than zero, held; strength: its length over the longest allowed."""
    DC_OFFSET = "dc_offset"
    """A mean away from zero; strength: its power over the bar, dB."""
    NOT_FINITE = "not_finite"
    """Samples that are no numbers; strength: how many."""
    LENGTH_LIMIT = "length_limit"
    """The row was cut at its frame limit; strength: seconds of audio."""
    TOO_LONG = "too_long"
    """Sounds far longer than this run takes for such a text; strength: length over the length expected."""
    TOO_SHORT = "too_short"
    """Sounds far shorter than this run takes for such a text; strength: length expected over the length."""


class PcmFinding(Record):
    """One thing that looks wrong."""

    kind: FaultKind
    """What it is."""
    start_s: Seconds
    """Where it begins in the file."""
    length_s: Seconds
    """How long it lasts; 0 for a point."""
    strength: float
    """How clear it is, in the measure of its kind; larger is clearer."""
    source_s: Seconds | None = None
    """Where a repeated stretch was first heard; null for other kinds."""


class PcmRow(Record):
    """One row of scores/pcm.jsonl."""

    schema_version: Literal[1] = 1
    """Version of this record kind; history in `ttsbench.records.reader`."""
    kind: Literal["pcm"] = "pcm"
    """Record kind."""
    evidence: Literal["inferred"] = "inferred"
    """Heard in the audio, not traced in the engine."""
    row_index: Count
    """Place among the run's rows."""
    utterance_id: str | None
    """The user's id of the row."""
    utterance_id_missing: Reason | None = None
    """Why it is unknown: the row has no record."""
    status: Literal["measured", "failed", "missing", "unscored"]
    """What the audit could do with the row, in the words of Coverage."""
    cause: Reason | None
    """Stable word for why the row was not measured; null for a measured row."""
    cause_detail: Reason | None
    """The same in a sentence; null for a measured row."""
    duration_s: Seconds | None
    """Length of the audio."""
    duration_s_missing: Reason | None = None
    """Why it is null: no audio was heard."""
    expected_s: Seconds | None
    """Length, without digital silence at its ends, that the run's other rows make one expect of the text."""
    expected_s_missing: Reason | None = None
    """Why it is null."""
    whole_frames: bool | None
    """Whether the samples are a multiple of the hop."""
    whole_frames_missing: Reason | None = None
    """Why it is null, such as audio at another rate than the engine's."""
    findings: tuple[PcmFinding, ...] | None
    """What looks wrong, by time; empty when nothing does."""
    findings_missing: Reason | None = None
    """Why there are none: the row was not measured."""

    @model_validator(mode="after")
    def _status_agrees(self) -> Self:
        measured = self.status == "measured"
        if measured != (self.cause is None) or measured != (self.findings is not None):
            raise ValueError(f"a {self.status} row {'has findings and no cause' if measured else 'needs a cause'}")
        return self


class EdgeComparison(Record):
    """Sharpness of the waveform at frame edges against points inside frames: the same where frames join unheard.

    Sharpness is the largest prediction residual within two samples of a point over its mean around, in dB; only points
    with speech on both sides count.
    """

    edges: Count
    """Frame edges looked at."""
    inside: Count
    """Points inside frames looked at, three for each edge."""
    edge_median_db: float | None
    """Median sharpness at the edges."""
    edge_median_db_missing: Reason | None = None
    """Why it is null: no edges."""
    inside_median_db: float | None
    """Median sharpness inside frames."""
    inside_median_db_missing: Reason | None = None
    """Why it is null: no points."""
    edge_p99_db: float | None
    """99th percentile at the edges."""
    edge_p99_db_missing: Reason | None = None
    """Why it is null: no edges."""
    inside_p99_db: float | None
    """99th percentile inside frames."""
    inside_p99_db_missing: Reason | None = None
    """Why it is null: no points."""
    edge_sharper_probability: float | None
    """Chance that an edge is sharper than a point inside a frame (ties half): 0.5 when clean."""
    edge_sharper_probability_missing: Reason | None = None
    """Why it is null: no edges."""


class PcmSummary(Record):
    """The PCM audit's section of scores.json."""

    evidence: Literal["inferred"] = "inferred"
    """Heard in the audio, not traced in the engine."""
    coverage: Coverage
    """Rows measured, failed, missing and unscored."""
    scorer: dict[str, JsonValue]
    """Everything pinned that decides the findings: rates, bars, weights."""
    scorer_sha256: Sha256
    """Hash of what is pinned; figures under different hashes are never compared."""
    rows_affected: Count
    """Measured rows with any finding."""
    rows_affected_pct: Percent | None
    """Those as a share of the measured rows, in percent."""
    rows_affected_pct_missing: Reason | None = None
    """Why it is null: no row was measured."""
    rows_by_kind: dict[FaultKind, Count]
    """Rows with at least one finding of a kind; every kind is listed."""
    findings_by_kind: dict[FaultKind, Count]
    """Findings of a kind, summed; every kind is listed."""
    rows_over_30_s: Count
    """Measured rows longer than a recogniser's window of 30 s."""
    rows_of_broken_frames: Count
    """Measured rows whose samples are no multiple of the hop."""
    splice_bar: float
    """Log odds that made a splice in this run: the pinned bar, or more where its speech is sharp by nature."""
    click_bar: float
    """The same for clicks at frame edges."""
    edges: EdgeComparison
    """Frame edges against points inside frames."""
    click_period_frames: Count | None
    """Distance, in frames, that clicks at frame edges keep: a chunk's length, where chunks join badly."""
    click_period_frames_missing: Reason | None = None
    """Why it is null: no clicks that keep one."""
