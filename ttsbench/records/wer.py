"""What the WER scorer writes: one WerRecord per row, and their aggregates.

A row is *scored* (recognised and compared), *charged* (it has no audio worth recognising: every reference word counts
as deleted, sentence WER 100 %) or *unscored* (the recogniser itself broke; the result is then incomplete). Percentages
are unrounded.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from ttsbench.records.base import Count, Reason, Record, Seconds, Sha256, UtcTime
from ttsbench.records.coverage import Coverage
from ttsbench.records.request import RowStatus

Percent = Annotated[float, Field(ge=0)]


class Outcome(StrEnum):
    """What the scorer could do with a row."""

    SCORED = "scored"
    CHARGED = "charged"
    UNSCORED = "unscored"


class WerRecord(Record):
    """One row of scores/wer-<protocol>.jsonl."""

    schema_version: Literal[1] = 1
    """Version of this record kind; history in `ttsbench.records.reader`."""
    kind: Literal["wer"] = "wer"
    """Record kind."""
    protocol_id: str
    """The rule set it was scored under."""
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
    outcome: Outcome
    """What the scorer could do with it."""
    cause: Reason | None
    """Stable word for why it was charged or left unscored; null for a scored row."""
    cause_detail: Reason | None
    """The same in a sentence; null for a scored row."""
    reference: str | None
    """The target text under the text rule."""
    reference_missing: Reason | None = None
    """Why it is unknown: the row has no record."""
    transcript: str | None
    """What the recogniser heard, as it wrote it; may be empty."""
    transcript_missing: Reason | None = None
    """Why there is none: the row was not recognised."""
    hypothesis: str | None
    """The transcript under the text rule."""
    hypothesis_missing: Reason | None = None
    """Why there is none: the row was not recognised."""
    substitutions: Count | None
    """Words replaced."""
    substitutions_missing: Reason | None = None
    """Why it is null."""
    deletions: Count | None
    """Words lost; all of them in a charged row."""
    deletions_missing: Reason | None = None
    """Why it is null."""
    insertions: Count | None
    """Words added."""
    insertions_missing: Reason | None = None
    """Why it is null."""
    reference_words: Count | None
    """Words of the reference (characters in Chinese)."""
    reference_words_missing: Reason | None = None
    """Why it is null: the row has no record, so its text is unknown."""
    wer_pct: Percent | None
    """Sentence WER: errors / reference words, uncapped; 100 in a charged row."""
    wer_pct_missing: Reason | None = None
    """Why it is null: the row is unscored."""
    audio_s: Seconds | None
    """Length of the audio that was recognised."""
    audio_s_missing: Reason | None = None
    """Why it is null: no audio was recognised."""

    @model_validator(mode="after")
    def _outcome_agrees(self) -> Self:
        if (self.outcome is Outcome.SCORED) != (self.cause is None):
            raise ValueError(f"a {self.outcome} row {'cannot have' if self.cause else 'needs'} a cause")
        if (self.outcome is Outcome.UNSCORED) != (self.wer_pct is None):
            raise ValueError(f"a {self.outcome} row {'needs' if self.wer_pct is None else 'cannot have'} a wer_pct")
        return self


class BootstrapInterval(Record):
    """Percentile bootstrap interval: rows drawn with replacement, the figure worked out anew each time."""

    low_pct: Percent
    """Lower end."""
    high_pct: Percent
    """Upper end."""
    level_pct: Percent
    """Share of the resampled figures that lies between the two, in percent."""
    resamples: Count
    """How often the rows were drawn."""
    seed: Count
    """Seed of the draws (NumPy's default generator)."""


class WerStats(Record):
    """Aggregates over a set of rows that have a WER."""

    rows: Count
    """Rows aggregated."""
    sentence_mean_pct: Percent
    """Unweighted mean of the sentence WERs (the official figure)."""
    sentence_mean_capped_pct: Percent
    """The same with each sentence capped at 100 %."""
    sentence_median_pct: Percent
    """Median sentence WER."""
    sentence_p95_pct: Percent
    """95th percentile of the sentence WERs, linear between the two nearest rows."""
    sentence_max_pct: Percent
    """Worst sentence WER."""
    rows_above_50_pct: Count
    """Rows whose sentence WER is above 50 %."""
    share_above_50_pct: Percent
    """Those rows as a share of all, in percent."""
    substitutions: Count
    """Words replaced, summed."""
    deletions: Count
    """Words lost, summed."""
    insertions: Count
    """Words added, summed."""
    reference_words: Count
    """Words of the references, summed."""
    corpus_pct: Percent | None
    """Corpus WER: errors / reference words, both summed over the rows."""
    corpus_pct_missing: Reason | None = None
    """Why it is null: no reference words, or rows whose reference is unknown."""
    sentence_mean_interval: BootstrapInterval | None = None
    """How far the sentence mean would move with other rows of the kind; null for one row, and in older files."""
    corpus_interval: BootstrapInterval | None = None
    """The same for the corpus WER; null where that is null, for one row, for draws of no words, and in older files."""


class WerHeadline(Record):
    """The one figure a protocol is named for."""

    figure: str
    """Which aggregate it is, by its name in WerStats."""
    rows: Count
    """Rows it counts; the protocol says which."""
    pct: Percent | None
    """The figure."""
    pct_missing: Reason | None = None
    """Why it is null."""
    interval: BootstrapInterval | None
    """Its interval; null where there is none in WerStats."""


class AsrFailure(Record):
    """The recogniser breaking in this scoring or, on the same audio, in an earlier one: all rows were then heard anew,
    one at a time."""

    row_index: Count
    """The first row, in row order, on which it broke."""
    utterance_id: str
    """The user's id of that row."""
    error: Reason
    """What it said."""
    rows: Count
    """Rows on which it broke before they were heard anew."""


class PromptLeak(Record):
    """Words of a voice prompt at the head of what was heard."""

    row_index: Count
    """The row that says them."""
    prompt_row_index: Count
    """The row whose prompt they are of; the same for a row's own prompt."""
    own: bool
    """Whether it is the row's own prompt."""
    words: tuple[str, ...]
    """The words, as recognised under the text rule."""


class WerSummary(Record):
    """One protocol's verdict on one run."""

    protocol_id: str
    """The rule set."""
    protocol: dict[str, JsonValue]
    """Everything the rule set pins: recogniser, its files, decoding, audio handling, text rule, failure policy."""
    protocol_sha256: Sha256
    """Hash of what is pinned; figures under different hashes are never compared."""
    software: dict[str, str]
    """Versions of the packages that did the work; the protocol does not pin them."""
    scored_at: UtcTime
    """When."""
    recogniser: dict[str, JsonValue] | None = None
    """Everything that decides a transcript: recogniser and audio handling as pinned, model files and device as found,
    versions. Null in older files."""
    recogniser_sha256: Sha256 | None = None
    """Hash of that; runs heard under different hashes were not heard by the same ears. Null in older files."""
    requests_sha256: Sha256
    """Hash of requests.jsonl as it was scored; another hash there today means this score is stale."""
    rows_file: str
    """The per-row file, relative to the run folder."""
    rows_sha256: Sha256
    """Hash of the per-row file's bytes."""
    complete: bool
    """Whether the figures may carry a claim: the run is complete and every row is scored or charged."""
    incomplete_because: tuple[str, ...]
    """Why not; empty when complete."""
    rows_expected: Count
    """Rows the run was to speak."""
    rows_scored: Count
    """Rows recognised and compared."""
    rows_charged: Count
    """Rows charged as wholly wrong."""
    rows_unscored: Count
    """Rows on which the recogniser broke."""
    charged_by_cause: dict[str, Count]
    """Charged rows by cause."""
    unscored_by_cause: dict[str, Count]
    """Unscored rows by cause."""
    coverage: Coverage | None = None
    """The same rows under the headings that all scorers share; those without a record are not among the failed. Null in
    older files."""
    first_asr_failure: AsrFailure | None = None
    """Why all rows were heard anew, one at a time; null when the recogniser never broke."""
    rows_from_cache: Count | None = None
    """Rows whose transcript was there from an earlier scoring by the same recogniser; null in older files."""
    rows_cut_at_length: Count
    """Rows whose audio was cut at the frame limit (runaways), whatever the scorer could do with them."""
    rows_empty_transcript: Count
    """Scored rows in which the recogniser heard nothing: 100 % deletions."""
    rows_trailing_deletions: Count | None = None
    """Scored rows in which something was heard, but not the last word or words; null in older files."""
    words_trailing_deletions: Count | None = None
    """Words lost at the end of those rows; null in older files."""
    prompt_leaks: tuple[PromptLeak, ...] | None = None
    """Rows that begin with words of a voice prompt, their own or another row's; null where no row's prompt has known
    words, and in older files."""
    headline: WerHeadline | None = None
    """The figure the protocol is named for; null in older files."""
    all_rows: WerStats | None
    """Scored and charged rows together."""
    all_rows_missing: Reason | None = None
    """Why it is null."""
    survivors: WerStats | None
    """Scored rows only: what a scorer that forgets failures would print. Never the headline."""
    survivors_missing: Reason | None = None
    """Why it is null."""

    @model_validator(mode="after")
    def _counts_add_up(self) -> Self:
        if self.rows_scored + self.rows_charged + self.rows_unscored != self.rows_expected:
            raise ValueError("rows scored, charged and unscored do not add up to rows expected")
        if sum(self.charged_by_cause.values()) != self.rows_charged:
            raise ValueError("charged_by_cause does not add up to rows_charged")
        if sum(self.unscored_by_cause.values()) != self.rows_unscored:
            raise ValueError("unscored_by_cause does not add up to rows_unscored")
        if self.coverage is not None and self.coverage.rows_expected != self.rows_expected:
            raise ValueError("coverage is of another number of rows")
        if self.complete != (not self.incomplete_because):
            raise ValueError("complete means that nothing is listed in incomplete_because")
        return self
