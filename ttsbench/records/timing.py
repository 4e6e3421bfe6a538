"""What the timing scorer writes: one TimingRow per row, and their aggregates in scores.json.

Times come from the clock of the row's own sitting and are differences of it; clocks of two sittings never meet. What is
not defined (the continuity of a row of one chunk, the RTF of a run without audio) is null with a reason, never 0.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from ttsbench.records.base import Count, Reason, Record, Seconds, Sha256
from ttsbench.records.coverage import Coverage
from ttsbench.records.distribution import Distribution
from ttsbench.records.request import RowStatus


class TimingRow(Record):
    """One row of scores/timing.jsonl."""

    schema_version: Literal[1] = 1
    """Version of this record kind; history in `ttsbench.records.reader`."""
    kind: Literal["timing"] = "timing"
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
    cause: Reason | None
    """Stable word for why the row is not measured; null for a measured row."""
    audio_s: Seconds | None
    """Length of the row's audio."""
    audio_s_missing: Reason | None = None
    """Why it is null: the row is not measured."""
    e2e_s: Seconds | None
    """From the hand-over to the final chunk, queueing included."""
    e2e_s_missing: Reason | None = None
    """Why it is null: the row is not measured."""
    rtf_request: Annotated[float, Field(ge=0)] | None
    """RTF of the request: e2e_s / audio_s. Not the RTF of the system, which shares its time among rows."""
    rtf_request_missing: Reason | None = None
    """Why it is null."""
    rtfx_request: Annotated[float, Field(ge=0)] | None
    """Its inverse: audio_s / e2e_s."""
    rtfx_request_missing: Reason | None = None
    """Why it is null."""
    first_audio_s: Seconds | None
    """From the hand-over to the first chunk that holds a sample."""
    first_audio_s_missing: Reason | None = None
    """Why it is null, such as audio that was taken whole."""
    leading_silence_s: Seconds | None
    """Silence at the head of the audio, to 5 ms."""
    leading_silence_s_missing: Reason | None = None
    """Why it is null, such as a file that is gone, or silence throughout."""
    first_audible_s: Seconds | None
    """First audible audio as published: first_audio_s + leading_silence_s."""
    first_audible_s_missing: Reason | None = None
    """Why it is null."""
    first_heard_s: Seconds | None
    """From the hand-over to when a player that starts at the first chunk reaches the first audible sample. Later than
    first_audible_s where playback stalls within the leading silence, as after a silent first packet."""
    first_heard_s_missing: Reason | None = None
    """Why it is null, such as a run without a trace."""
    audio_chunks: Count | None
    """Chunks that hold samples."""
    audio_chunks_missing: Reason | None = None
    """Why it is null: the row is not measured."""
    chunk_audio_smallest_s: Seconds | None
    """Audio in the shortest chunk; gaps mean little without it."""
    chunk_audio_smallest_s_missing: Reason | None = None
    """Why it is null."""
    chunk_audio_largest_s: Seconds | None
    """Audio in the longest chunk."""
    chunk_audio_largest_s_missing: Reason | None = None
    """Why it is null."""
    gap_mean_s: Seconds | None
    """Mean time between one chunk with samples and the next."""
    gap_mean_s_missing: Reason | None = None
    """Why it is null, such as fewer than two chunks."""
    gap_largest_s: Seconds | None
    """Longest such time."""
    gap_largest_s_missing: Reason | None = None
    """Why it is null."""
    underrun_cumulative_s: Seconds | None
    """Cumulative deficit (U_cum): the most that any chunk lags behind a player that starts at the first chunk and never
    pauses. Equals the sum of all stalls, and the smallest start delay that makes playback gapless."""
    underrun_cumulative_s_missing: Reason | None = None
    """Why it is null, such as fewer than two chunks: such a row is neither continuous nor broken."""
    underrun_largest_s: Seconds | None
    """Largest single stall (U_max) of a player that pauses and goes on."""
    underrun_largest_s_missing: Reason | None = None
    """Why it is null."""
    stalls: Count | None
    """Times that player ran dry."""
    stalls_missing: Reason | None = None
    """Why it is null."""
    late_chunks: Count | None
    """Chunks behind the player that never pauses; one early stall makes all later chunks late."""
    late_chunks_missing: Reason | None = None
    """Why it is null."""
    in_steady_window: bool | None
    """Whether the row was handed over while the run was in its steady window."""
    in_steady_window_missing: Reason | None = None
    """Why it is null, such as full concurrency never reached."""

    @model_validator(mode="after")
    def _measured_or_not(self) -> Self:
        if (self.cause is None) != (self.e2e_s is not None):
            raise ValueError("a row has a cause exactly when it is not measured")
        if self.cause is None and self.status is not RowStatus.OK:
            raise ValueError(f"only rows with status ok are measured, got {self.status}")
        return self


class PhaseSpeed(Record):
    """Speed from the first hand-over to the last end of a row, start burst and drain included."""

    rows: Count
    """Measured rows."""
    audio_s: Seconds
    """Their audio."""
    wall_s: Seconds | None
    """From the first row handed over to the last one ended, failed rows included; summed over sittings."""
    wall_s_missing: Reason | None = None
    """Why it is null: no row reached the engine."""
    batch_wall_s: Seconds | None
    """The same, to the last WAV on disk."""
    batch_wall_s_missing: Reason | None = None
    """Why it is null."""
    audio_s_per_wall_s: float | None
    """Audio throughput: audio_s / wall_s, both summed first."""
    audio_s_per_wall_s_missing: Reason | None = None
    """Why it is null, such as no measured row."""
    requests_per_wall_s: float | None
    """Request throughput: rows / wall_s."""
    requests_per_wall_s_missing: Reason | None = None
    """Why it is null."""
    rtf_system: float | None
    """RTF of the system: wall_s / audio_s."""
    rtf_system_missing: Reason | None = None
    """Why it is null."""
    rtfx_system: float | None
    """Its inverse, which is the audio throughput under its other name."""
    rtfx_system_missing: Reason | None = None
    """Why it is null."""


class SteadySpeed(Record):
    """Speed between the first moment at full concurrency and the last hand-over of a row."""

    windows: Annotated[int, Field(gt=0)]
    """Sittings that had such a window."""
    window_s: Annotated[float, Field(gt=0)]
    """Its length, summed over sittings."""
    audio_s: Seconds | None
    """Audio of measured rows in chunks that appeared within the window."""
    audio_s_missing: Reason | None = None
    """Why it is null: when the audio of some row appeared is not known, as in a run without a trace."""
    audio_s_per_wall_s: float | None
    """Audio throughput at full load: audio_s / window_s."""
    audio_s_per_wall_s_missing: Reason | None = None
    """Why it is null."""


class SittingSpeed(Record):
    """One sitting of the run, on its own clock."""

    sitting: Count
    """Which one."""
    concurrency_peak: Count
    """Most rows in flight at once."""
    phase: PhaseSpeed
    """Whole phase."""
    steady: SteadySpeed | None
    """Steady window."""
    steady_missing: Reason | None = None
    """Why there is none."""


class WithinLimit(Record):
    """How many rows keep a limit on stalls."""

    limit_ms: Count
    """The limit, kept when equal."""
    rows: Count
    """Rows whose continuity is defined."""
    rows_within: Count
    """Those that keep it."""
    share_pct: float | None
    """rows_within / rows, in percent."""
    share_pct_missing: Reason | None = None
    """Why it is null: no row's continuity is defined."""


class Continuity(Record):
    """Playback of the rows whose continuity is defined."""

    rows_stalled: Count
    """Rows with at least one stall."""
    stalls: Count
    """Stalls of a player that pauses and goes on, over all rows."""
    late_chunks: Count
    """Chunks behind a player that never pauses, over all rows."""
    c50: WithinLimit
    """Rows whose largest single stall is at most 50 ms."""
    c100: WithinLimit
    """At most 100 ms."""
    c200: WithinLimit
    """At most 200 ms."""
    cumulative_100: WithinLimit
    """Rows whose cumulative deficit is at most 100 ms, the other published threshold."""


class RowFigures(Record):
    """Latency and continuity over a set of measured rows."""

    rows: Count
    """Rows in the set."""
    e2e_s: Distribution | None
    """Hand-over to final chunk. In a closed loop, not what a user waits: a slow engine is simply asked less often."""
    e2e_s_missing: Reason | None = None
    """Why it is null."""
    rtf_request: Distribution | None
    """RTF of the requests; its mean is a mean of ratios."""
    rtf_request_missing: Reason | None = None
    """Why it is null."""
    rtfx_request: Distribution | None
    """Inverse RTF of the requests."""
    rtfx_request_missing: Reason | None = None
    """Why it is null."""
    first_audio_s: Distribution | None
    """Hand-over to the first chunk with a sample."""
    first_audio_s_missing: Reason | None = None
    """Why it is null."""
    leading_silence_s: Distribution | None
    """Silence at the head of the audio."""
    leading_silence_s_missing: Reason | None = None
    """Why it is null."""
    first_audible_s: Distribution | None
    """First audio + leading silence."""
    first_audible_s_missing: Reason | None = None
    """Why it is null."""
    first_heard_s: Distribution | None
    """When a player reaches the first audible sample, its stalls included."""
    first_heard_s_missing: Reason | None = None
    """Why it is null."""
    gap_s: Distribution | None
    """Every gap between chunks of every row, one value each."""
    gap_s_missing: Reason | None = None
    """Why it is null."""
    chunk_audio_s: Distribution | None
    """Audio of every chunk of every row, one value each."""
    chunk_audio_s_missing: Reason | None = None
    """Why it is null."""
    underrun_cumulative_s: Distribution | None
    """Cumulative deficit (U_cum)."""
    underrun_cumulative_s_missing: Reason | None = None
    """Why it is null."""
    underrun_largest_s: Distribution | None
    """Largest single stall (U_max)."""
    underrun_largest_s_missing: Reason | None = None
    """Why it is null."""
    continuity: Continuity
    """Stalls counted, and rows within limits."""


class Goodput(Record):
    """Rows that meet every limit; a failed row meets none."""

    limits: dict[str, float]
    """Largest value allowed, by field of TimingRow."""
    rows_good: Count
    """Rows that meet all of them."""
    rows_undecided: Count
    """Measured rows that break no limit but lack a limited figure, such as the continuity of a row of one chunk."""
    rows_per_wall_s: float | None
    """Goodput: rows_good / wall_s of the whole phase."""
    rows_per_wall_s_missing: Reason | None = None
    """Why it is null: undecided rows, or no wall time."""


class TimingSummary(Record):
    """Throughput, latency and continuity of one run; a section of scores.json."""

    coverage: Coverage
    """Measured rows are those with status ok and known times."""
    scorer: dict[str, JsonValue]
    """Every rule that decides the figures."""
    scorer_sha256: Sha256
    """Hash of those rules; figures under different hashes are never compared."""
    caveats: tuple[str, ...]
    """What keeps these figures from carrying a claim on speed; empty when nothing does."""
    concurrency: Annotated[int, Field(gt=0)]
    """Most rows the run would keep in flight."""
    concurrency_peak: Count
    """Most rows that were in flight at once, on the event timeline."""
    phase: PhaseSpeed
    """Whole phase, sittings pooled: sums divided, never rates averaged."""
    steady: SteadySpeed | None
    """Steady window, sittings pooled."""
    steady_missing: Reason | None = None
    """Why there is none in any sitting."""
    sittings: tuple[SittingSpeed, ...]
    """Each sitting that handed over a row. A killed one ends here at its last recorded row; what it spent on rows that
    it lost is in its wall time and not in its audio."""
    rows: RowFigures
    """All measured rows."""
    steady_rows: RowFigures | None
    """Measured rows handed over in the steady window, after the start burst."""
    steady_rows_missing: Reason | None = None
    """Why there are none."""
    goodput: Goodput | None
    """Rows within limits."""
    goodput_missing: Reason | None = None
    """Why it is null: no limits were given."""
