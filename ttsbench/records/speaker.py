"""What the speaker scorer writes: one SpeakerRow per row, and their aggregates as a section of scores.json.

Similarities are cosines x 100, unrounded; their range belongs to the encoder, so figures of different encoders are
never compared. A row that cannot be measured has no similarity: it is counted beside the figures, never as 0.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from ttsbench.records.base import Count, Reason, Record, Seconds, Sha256
from ttsbench.records.coverage import Coverage
from ttsbench.records.request import RowStatus

CosineX100 = Annotated[float, Field(ge=-100.001, le=100.001)]
"""The margin is float32 rounding of unit vectors."""


class SpeakerOutcome(StrEnum):
    """What the scorer could do with a row; the headings of `Coverage`."""

    MEASURED = "measured"
    FAILED = "failed"
    MISSING = "missing"
    UNSCORED = "unscored"


class SpeakerRow(Record):
    """One row of scores/speaker.jsonl."""

    schema_version: Literal[1] = 1
    """Version of this record kind; history in `ttsbench.records.reader`."""
    kind: Literal["speaker"] = "speaker"
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
    voice: str | None
    """The voice asked for: a speaker's name, a clip's path as the corpus gives it, or a description."""
    voice_missing: Reason | None = None
    """Why it is unknown: the row has no record."""
    outcome: SpeakerOutcome
    """What the scorer could do with it."""
    cause: Reason | None
    """Stable word for why it was not measured; null for a measured row."""
    cause_detail: Reason | None
    """The same in a sentence; null for a measured row."""
    speech_s: Seconds | None
    """Length of the audio without its long pauses."""
    speech_s_missing: Reason | None = None
    """Why it is null: no audio was measured."""
    similarity_x100: CosineX100 | None
    """The whole row against its own reference clip."""
    similarity_x100_missing: Reason | None = None
    """Why it is null: not measured, or a voice without a clip, for which similarity is undefined."""
    head_similarity_x100: CosineX100 | None
    """The first two seconds of speech against the own reference clip."""
    head_similarity_x100_missing: Reason | None = None
    """Why it is null, as for similarity_x100."""
    foreign_similarity_x100: CosineX100 | None
    """The whole row against the nearest of the run's other reference clips."""
    foreign_similarity_x100_missing: Reason | None = None
    """Why it is null, as for similarity_x100, or a run with one clip only."""
    foreign_voice: str | None
    """The path of that other clip."""
    foreign_voice_missing: Reason | None = None
    """Why it is null, as for foreign_similarity_x100."""
    foreign_above_own: bool | None
    """Whether the row is nearer to that other clip than to its own."""
    foreign_above_own_missing: Reason | None = None
    """Why it is null, as for foreign_similarity_x100."""
    echo_suspected: bool | None
    """Whether it is so near to its clip that it may be the clip itself; to be read beside the WER."""
    echo_suspected_missing: Reason | None = None
    """Why it is null, as for similarity_x100."""
    consistency_x100: CosineX100 | None
    """The whole row against the mean of the other measured rows of the same voice."""
    consistency_x100_missing: Reason | None = None
    """Why it is null: not measured, or the only row of its voice."""
    nearest_voice: str | None
    """The voice of this run whose mean is nearest; the row itself is left out of its own voice's mean."""
    nearest_voice_missing: Reason | None = None
    """Why it is null: not measured, the only row of its voice, or a run of one voice."""
    nearest_voice_is_own: bool | None
    """Whether that is the voice it was asked to have."""
    nearest_voice_is_own_missing: Reason | None = None
    """Why it is null, as for nearest_voice."""

    @model_validator(mode="after")
    def _outcome_agrees(self) -> Self:
        measured = self.outcome is SpeakerOutcome.MEASURED
        if measured != (self.cause is None) or measured != (self.cause_detail is None):
            raise ValueError(
                f"a {self.outcome} row {'cannot have' if measured else 'needs'} a cause in word and sentence"
            )
        if measured != (self.speech_s is not None):
            raise ValueError(f"a {self.outcome} row {'needs' if measured else 'cannot have'} a speech_s")
        return self


class SimilarityStats(Record):
    """Similarities of some rows."""

    rows: Annotated[int, Field(gt=0)]
    """Rows that have one."""
    mean_x100: CosineX100
    """Mean."""
    p5_x100: CosineX100
    """5th percentile, linear between the two nearest rows."""
    mean_low_x100: CosineX100 | None
    """Lower end of the mean's 95 % interval, by bootstrap over rows. Rows of one run share its engine's start, so this
    is no interval for another start."""
    mean_low_x100_missing: Reason | None = None
    """Why it is null: one row has no spread."""
    mean_high_x100: CosineX100 | None
    """Upper end of that interval."""
    mean_high_x100_missing: Reason | None = None
    """Why it is null: one row has no spread."""


class SpeakerSummary(Record):
    """How far a run's rows are in the voices that were asked for."""

    coverage: Coverage
    """Which rows the figures rest on."""
    scorer: dict[str, JsonValue]
    """Everything that decides the figures: encoder with its files, audio handling, thresholds, bootstrap."""
    scorer_sha256: Sha256
    """Hash of `scorer`; figures under different hashes are never compared."""
    references: Count
    """Different reference clips in the run (by hash) that could be heard. The more there are, the nearer the nearest
    foreign one is by chance: foreign figures compare between runs over the same rows only."""
    voices: Count
    """Different voices that measured rows were asked to have."""
    rows_without_reference: Count
    """Measured rows whose voice has no clip: similarity is undefined for them (n/a)."""
    rows_short: Count
    """Measured rows with less than a second of speech: their similarities are noisy."""
    similarity: SimilarityStats | None
    """Rows against their own reference clips."""
    similarity_missing: Reason | None = None
    """Why it is null."""
    head_similarity: SimilarityStats | None
    """The first two seconds of speech against the own reference clips."""
    head_similarity_missing: Reason | None = None
    """Why it is null."""
    foreign_similarity: SimilarityStats | None
    """Rows against the nearest clip that is not theirs."""
    foreign_similarity_missing: Reason | None = None
    """Why it is null."""
    consistency: SimilarityStats | None
    """Rows against the mean of the other rows of their voice."""
    consistency_missing: Reason | None = None
    """Why it is null."""
    rows_echo_suspected: Count | None
    """Rows so near to their clip that they may be the clip itself."""
    rows_echo_suspected_missing: Reason | None = None
    """Why it is null, as for similarity."""
    rows_foreign_above_own: Count | None
    """Rows nearer to another clip than to their own, among those of foreign_similarity."""
    rows_foreign_above_own_missing: Reason | None = None
    """Why it is null, as for foreign_similarity."""
    rows_told_by_voice: Count | None
    """Rows that have a nearest voice."""
    rows_told_by_voice_missing: Reason | None = None
    """Why it is null: no row has one."""
    rows_nearest_own_voice: Count | None
    """Those of them that are nearest to their own voice."""
    rows_nearest_own_voice_missing: Reason | None = None
    """Why it is null: no row has a nearest voice."""

    @model_validator(mode="after")
    def _counts_add_up(self) -> Self:
        with_reference = 0 if self.similarity is None else self.similarity.rows
        if with_reference + self.rows_without_reference != self.coverage.rows_measured:
            raise ValueError("rows with a similarity and rows without a reference do not add up to rows measured")
        if (self.rows_nearest_own_voice or 0) > (self.rows_told_by_voice or 0):
            raise ValueError("more rows nearest to their own voice than rows that have a nearest voice")
        return self
