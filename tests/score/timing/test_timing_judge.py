"""From a run folder to timing figures: by hand, and with everything that can be missing missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.records.builders import request_without_audio
from tests.score.runs import tone, wav_bytes
from tests.score.timing.timelines import CLOCK_NS, JUMPY, ONE_LATE, RATE_HZ, STEADY, HandRun
from ttsbench.core import InvalidInput
from ttsbench.records import RowStatus, TraceRecord
from ttsbench.records.timing import RowFigures, TimingRow, WithinLimit
from ttsbench.score.timing import judge_timing
from ttsbench.score.timing.chunks import DISAGREES, NO_TRACE, TAKEN_WHOLE
from ttsbench.score.timing.row import FIGURES, ONE_CHUNK

UNDERRUNS = ("underrun_cumulative_s", "underrun_largest_s", "stalls", "late_chunks", "gap_mean_s", "gap_largest_s")


@pytest.fixture
def run(tmp_path: Path) -> HandRun:
    return HandRun(tmp_path)


def busy(run: HandRun) -> HandRun:
    """Five rows through two slots: 11.5 s of audio in 8 s; steady from 0.5 (both taken) to 5.5 (last hand-over)."""
    run.row(0, 0.0, ((0.5, 1.0), (3.0, 1.0)))
    run.row(1, 0.5, ((1.0, 1.0), (4.0, 2.0)))
    run.row(2, 3.0, ((3.5, 1.0), (5.0, 1.0)))
    run.row(3, 4.25, ((4.5, 1.0), (8.0, 2.0)))
    run.row(4, 5.5, ((5.75, 1.0), (6.0, 0.5)))
    return run


def missing(row: TimingRow, *names: str) -> set[str | None]:
    """The reasons of some figures, each of which must be null."""
    assert all(getattr(row, name) is None for name in names), row
    return {getattr(row, f"{name}_missing") for name in names}


def test_speed_by_hand(run: HandRun) -> None:
    """Red when the wall starts with the first audio or ends with the last WAV, when the two kinds of RTF are mixed up,
    or their inverses."""
    rows, summary = judge_timing(busy(run).open())
    phase = summary.phase
    assert (phase.rows, phase.audio_s, phase.wall_s, phase.batch_wall_s) == (5, 11.5, 8.0, 8.25)
    assert (phase.audio_s_per_wall_s, phase.requests_per_wall_s) == (11.5 / 8, 5 / 8)
    assert (phase.rtf_system, phase.rtfx_system) == (8 / 11.5, 11.5 / 8)
    assert [row.e2e_s for row in rows] == [3.0, 3.5, 2.0, 3.75, 0.5]
    assert [row.first_audio_s for row in rows] == [0.5, 0.5, 0.5, 0.25, 0.25]
    assert (rows[4].rtf_request, rows[4].rtfx_request) == (0.5 / 1.5, 1.5 / 0.5)
    assert (rows[1].chunk_audio_smallest_s, rows[1].chunk_audio_largest_s, rows[1].gap_mean_s) == (1.0, 2.0, 3.0)
    assert (summary.concurrency, summary.concurrency_peak) == (2, 2)
    assert summary.rows.gap_s is not None
    assert (summary.rows.gap_s.values, summary.rows.gap_s.largest) == (5, 3.5)


def test_the_steady_window_counts_what_appeared_in_it(run: HandRun) -> None:
    """In (0.5, 5.5]: 1 s of row 0 (its chunk at 0.5 came as the window opened), 3 of row 1, 2 of row 2, 1 of row 3.

    Red when whole rows are counted by their ends (6 s) or starts, when both edges are inside, or when rows of the start
    burst count as handed over at full load.
    """
    rows, summary = judge_timing(busy(run).open())
    steady = summary.steady
    assert steady is not None
    assert (steady.windows, steady.window_s, steady.audio_s, steady.audio_s_per_wall_s) == (1, 5.0, 7.0, 7 / 5)
    assert [row.in_steady_window for row in rows] == [False, False, True, True, True]
    assert summary.steady_rows is not None
    assert summary.steady_rows.rows == 3
    assert summary.steady_rows.first_audio_s is not None
    assert summary.steady_rows.first_audio_s.largest == 0.5


def test_only_rows_in_flight_in_the_window_need_chunk_times(run: HandRun) -> None:
    """Rows 0 and 3 lie outside the window (2, 3]: that their traces are useless takes nothing from it. Row 1's would.

    Red when a row outside leaves the steady figure null, or a row inside is left out of it silently.
    """
    for index, (submitted_s, finished_s) in enumerate(((0, 1), (2, 4), (2, 3), (3, 5))):
        run.row(index, float(submitted_s), ((submitted_s + 0.5, 1.0), (finished_s, 1.0)))
    whole = judge_timing(run.open())[1].steady
    assert whole is not None
    for index in (0, 3):
        run.lines = [line for line in run.lines if line.row_index != index]
        assert judge_timing(run.open())[1].steady == whole
    run.lines = [line for line in run.lines if line.row_index != 1]
    blind = judge_timing(run.open())[1].steady
    assert blind is not None
    assert (blind.window_s, blind.audio_s, blind.audio_s_missing) == (whole.window_s, None, DISAGREES)


def test_the_order_of_the_records_changes_nothing(run: HandRun) -> None:
    """Records come in the order in which rows end. Red when a figure leans on row order or trace order across rows."""
    first = judge_timing(busy(run).open())
    run.records.reverse()
    run.lines.sort(key=lambda line: line.emitted_at_ns)
    assert judge_timing(run.open()) == first


def test_failed_rows_cost_time_and_bring_no_audio(run: HandRun) -> None:
    """Red when the wall is taken of good rows alone, when a runaway's audio counts, or rows vanish from coverage."""
    busy(run)
    run.records.append(request_without_audio(5, RowStatus.FAILED, submitted_s=6.0, finished_s=10.0))
    never = dict.fromkeys(("submitted_s", "finished_s")) | dict.fromkeys(
        ("submitted_s_missing", "finished_s_missing"), "x"
    )
    run.records.append(request_without_audio(6, RowStatus.INVALID).revised(**never))
    run.row(7, 8.0, ((8.5, 20.0),), status=RowStatus.LENGTH, finish_reason="length")
    untimed = run.row(9, 8.5, ((9.0, 1.0),))
    run.records[-1] = untimed.revised(finished_s=None, finished_s_missing="the server did not say")
    rows, summary = judge_timing(run.open(expected=11))
    assert [row.cause for row in rows] == [None] * 5 + [
        "failed", "invalid", "length", "missing_record", "untimed", "missing_record"
    ]  # fmt: skip
    assert (summary.phase.rows, summary.phase.audio_s, summary.phase.wall_s) == (5, 11.5, 10.0)
    coverage = summary.coverage
    assert (coverage.rows_expected, coverage.rows_measured, coverage.rows_failed, coverage.rows_missing) == (
        11,
        5,
        4,
        2,
    )
    assert coverage.failed_by_cause == {"failed": 1, "invalid": 1, "length": 1, "untimed": 1}
    for row in rows[5:]:
        assert len(missing(row, *FIGURES)) == 1
    assert summary.caveats == (
        "the run is interrupted",
        "6 of 11 rows are not measured: the figures are of survivors",
        "tracing was on, which costs time",
    )


def test_a_run_without_a_measured_row_has_no_figure(run: HandRun) -> None:
    """Red when no data becomes a 0."""
    run.records.append(request_without_audio(0, RowStatus.FAILED, submitted_s=0.0, finished_s=4.0))
    _, summary = judge_timing(run.open())
    assert summary.phase.wall_s == 4.0
    for name in ("audio_s_per_wall_s", "requests_per_wall_s", "rtf_system", "rtfx_system"):
        assert getattr(summary.phase, name) is None
    distributions = [name for name in RowFigures.model_fields if f"{name}_missing" in RowFigures.model_fields]
    assert len(distributions) == 11
    assert {getattr(summary.rows, f"{name}_missing") for name in distributions} == {"no row is measured"}
    assert summary.rows.continuity.c50.share_pct is None


# --- several sittings -------------------------------------------------------------------------------------------------


def resumed(run: HandRun) -> HandRun:
    """Sitting 0: two rows in 4 s, and one cancelled at 5. Sitting 1, whose clock shows less: that row and another."""
    run.row(0, 0.0, ((1.0, 4.0), (4.0, 4.0)))
    run.row(1, 0.0, ((1.0, 1.0), (3.0, 1.0)))
    run.row(2, 3.0, ((4.5, 1.0), (5.0, 1.0)))
    run.records[-1] = request_without_audio(2, RowStatus.CANCELLED, submitted_s=3.0, finished_s=5.0)
    run.row(2, 0.5, ((0.75, 1.0), (1.0, 1.0)), sitting=1, attempt=2)
    run.row(3, 0.5, ((0.75, 1.0), (1.5, 1.0)), sitting=1)
    return run


def test_sittings_are_pooled_as_sums_and_their_clocks_never_meet(run: HandRun) -> None:
    """10 s of audio in 5 s, then 4 s in 1 s: 14 s in 6 s. Red when walls span both clocks (5 s), rates are averaged
    (3 instead of 2.33), a cancelled attempt's time is forgotten, or its trace is taken for the later attempt's."""
    rows, summary = judge_timing(resumed(run).open(sitting=1))
    assert (summary.phase.audio_s, summary.phase.wall_s) == (14.0, 6.0)
    assert summary.phase.audio_s_per_wall_s == 14 / 6
    assert [(s.sitting, s.phase.audio_s, s.phase.wall_s) for s in summary.sittings] == [(0, 10.0, 5.0), (1, 4.0, 1.0)]
    assert (rows[2].e2e_s, rows[2].first_audio_s, rows[2].gap_largest_s) == (0.5, 0.25, 0.25)
    assert summary.concurrency_peak == 2  # three rows touch second 0.5 to 1.5 of some clock
    assert summary.rows.e2e_s is not None
    assert summary.rows.e2e_s.values == 4
    assert summary.caveats[0] == "made in 2 sittings, 2 of which spoke: what a killed one lost is unknown"
    # Only sitting 0 handed over a row at full concurrency: its window is (0, 3], with 4 + 1 + 1 s of audio.
    assert summary.steady is not None
    assert (summary.steady.windows, summary.steady.window_s, summary.steady.audio_s) == (1, 3.0, 6.0)
    assert summary.sittings[1].steady_missing == "no row was handed over after full concurrency was reached"


def test_a_killed_run_is_judged_as_far_as_its_records_go(run: HandRun) -> None:
    """Killed with row 1 done, row 0 begun (its trace is there, its record is not). Red when trace lines without a
    record are counted as audio, or make the scorer fail."""
    run.row(1, 0.0, ((1.0, 1.0), (2.0, 1.0)))
    run.row(0, 0.0, ((1.0, 1.0), (3.0, 1.0)))
    run.records.pop()
    rows, summary = judge_timing(run.open(expected=3))
    assert [row.cause for row in rows] == ["missing_record", None, "missing_record"]
    assert (summary.phase.audio_s, summary.phase.wall_s) == (2.0, 2.0)
    assert summary.caveats[0] == "the run is interrupted"


def test_leftover_lines_of_a_killed_sitting_do_not_pass_for_the_rows_own(run: HandRun) -> None:
    """Row 0 was begun in a sitting that was killed, then spoken in the next; the leftovers carry the same attempt.

    Red when times of both clocks land in one chunk log.
    """
    run.row(0, 0.5, ((0.75, 1.0), (1.0, 1.0)), sitting=1)
    run.lines.insert(0, run.lines[0].revised(emitted_at_ns=CLOCK_NS))
    rows, _ = judge_timing(run.open(sitting=1))
    assert missing(rows[0], *UNDERRUNS, "first_heard_s") == {DISAGREES}
    assert (rows[0].e2e_s, rows[0].first_audio_s) == (0.5, 0.25)


def test_a_row_spoken_twice_counts_once(run: HandRun) -> None:
    """Red when the audio of an earlier attempt adds to that of the latest."""
    run.row(0, 0.0, ((1.0, 1.0), (2.0, 1.0)))
    run.row(0, 0.0, ((1.0, 1.0), (2.0, 1.0)), sitting=1, attempt=2)
    _, summary = judge_timing(run.open(sitting=1))
    assert (summary.phase.rows, summary.phase.audio_s, summary.phase.wall_s) == (1, 2.0, 4.0)


# --- continuity -------------------------------------------------------------------------------------------------------


def test_equal_rtf_hides_gaps_and_continuity_shows_them(run: HandRun) -> None:
    """Three rows with the same audio by the same time. Red when continuity is judged by RTF, or a limit by the other
    definition or the wrong unit."""
    for index, chunks in enumerate((STEADY, ONE_LATE, JUMPY)):
        run.row(index, 0.0, chunks)
    rows, summary = judge_timing(run.open(concurrency=3))
    assert {row.rtf_request for row in rows} == {1.5 / 7.28}
    assert [row.underrun_largest_s for row in rows] == [0.0, 0.15, 1.12]
    found = summary.rows.continuity
    assert (found.rows_stalled, found.stalls, found.late_chunks) == (2, 2, 2)
    limits = (found.c50, found.c100, found.c200, found.cumulative_100)
    assert [(limit.limit_ms, limit.rows, limit.rows_within) for limit in limits] == [
        (50, 3, 1),
        (100, 3, 1),
        (200, 3, 2),
        (100, 3, 1),
    ]
    assert found.c200.share_pct == pytest.approx(200 / 3)


def test_the_two_definitions_have_their_own_limits(run: HandRun) -> None:
    """Three stalls of exactly 50 ms: each within C50, together beyond 100 ms. Red when C50 and C100 are judged by the
    cumulative deficit, the published 100 ms by the largest stall, or a limit that is just kept counts as broken."""
    run.row(0, 0.0, ((1.0, 1.0), (2.05, 1.0), (3.1, 1.0), (4.15, 1.0)))
    rows, summary = judge_timing(run.open(concurrency=1))
    assert (rows[0].underrun_largest_s, rows[0].underrun_cumulative_s, rows[0].stalls) == (0.05, 0.15, 3)
    found = summary.rows.continuity
    assert (found.c50.rows_within, found.c100.rows_within, found.cumulative_100.rows_within) == (1, 1, 0)


def test_a_row_of_one_chunk_is_neither_continuous_nor_broken(run: HandRun) -> None:
    """Red when it counts as continuous, in the share or below it."""
    run.row(0, 0.0, ((1.0, 2.0),))
    run.row(1, 0.0, STEADY)
    rows, summary = judge_timing(run.open())
    assert missing(rows[0], *UNDERRUNS) == {ONE_CHUNK}
    assert (rows[0].audio_chunks, rows[0].chunk_audio_largest_s, rows[0].first_heard_s) == (1, 2.0, 1.0)
    assert summary.rows.continuity.c50 == WithinLimit(limit_ms=50, rows=1, rows_within=1, share_pct=100.0)
    assert summary.rows.underrun_largest_s is not None
    assert summary.rows.underrun_largest_s.rows_without_by_reason == {ONE_CHUNK: 1}


def test_a_final_chunk_without_samples_is_no_chunk_of_audio(run: HandRun) -> None:
    """Red when the end signal counts as a late chunk or a gap."""
    run.row(0, 0.0, ((1.0, 1.0), (1.5, 1.0)), finished_s=9.0, wav_written_s=9.25)
    last = run.lines[-1]
    run.lines[-1] = last.revised(terminal=False, finish_reason=None)
    run.lines.append(last.revised(index=2, samples=0, emitted_at_ns=CLOCK_NS + 9 * 10**9))
    rows, _ = judge_timing(run.open())
    assert (rows[0].e2e_s, rows[0].audio_chunks, rows[0].gap_largest_s, rows[0].late_chunks) == (9.0, 2, 0.5, 0)


def test_audio_taken_whole_has_no_first_audio_and_no_continuity(run: HandRun) -> None:
    """Red when the time of the whole passes for first audio, or one chunk for gapless playback."""
    for index, submitted_s in enumerate((0.0, 0.0, 2.0)):
        run.row(index, submitted_s, ((submitted_s + 2.0, 3.0),), first_audio_s=None, first_audio_s_missing=TAKEN_WHOLE)
    rows, summary = judge_timing(run.open(stream=False))
    names = (*UNDERRUNS, "first_audio_s", "first_audible_s", "first_heard_s", "chunk_audio_largest_s")
    assert missing(rows[0], *names) == {TAKEN_WHOLE}
    assert (summary.phase.audio_s_per_wall_s, summary.rows.continuity.c50.rows) == (9 / 4, 0)
    assert summary.steady is not None
    assert (summary.steady.window_s, summary.steady.audio_s_missing) == (2.0, TAKEN_WHOLE)


def test_a_run_without_a_trace_keeps_what_its_records_know(run: HandRun) -> None:
    """Timed rounds are not traced. Red when continuity or the steady audio is made up, or first audio is lost."""
    rows, summary = judge_timing(busy(run).open(trace=False))
    assert missing(rows[0], *UNDERRUNS, "first_heard_s") == {NO_TRACE}
    assert (rows[0].first_audio_s, rows[0].first_audible_s, rows[0].audio_chunks) == (0.5, 0.5, 2)
    assert summary.phase.audio_s_per_wall_s == 11.5 / 8
    assert summary.steady is not None
    assert (summary.steady.window_s, summary.steady.audio_s_per_wall_s_missing) == (5.0, NO_TRACE)
    assert (summary.rows.gap_s, summary.rows.gap_s_missing) == (None, NO_TRACE)
    assert summary.caveats == ()


Lines = list[TraceRecord]
MUTATIONS: dict[str, Callable[[Lines], Lines]] = {
    "no lines": lambda lines: [],
    "a chunk is lost": lambda lines: [lines[0], lines[2]],
    "a chunk stands twice": lambda lines: [lines[0], lines[0], *lines[1:]],
    "no end": lambda lines: [*lines[:2], lines[2].revised(terminal=False)],
    "two ends": lambda lines: [lines[0].revised(terminal=True), *lines[1:]],
    "an end, then more": lambda lines: [lines[0], lines[2], lines[1]],
    "a sample too many": lambda lines: [lines[0].revised(samples=lines[0].samples + 1), *lines[1:]],
    "another rate": lambda lines: [line.revised(sample_rate_hz=RATE_HZ * 2) for line in lines],
    "times run backwards": lambda lines: [lines[0], lines[1].revised(emitted_at_ns=CLOCK_NS), lines[2]],
    "a first chunk of another clock": lambda lines: [lines[0].revised(emitted_at_ns=CLOCK_NS - 10**9), *lines[1:]],
    "a split chunk": lambda lines: [
        lines[0].revised(samples=lines[0].samples - 1),
        lines[0].revised(samples=1),
        *lines[1:],
    ],
}


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_a_trace_that_contradicts_its_record_gives_no_times(run: HandRun, mutate: Callable[[Lines], Lines]) -> None:
    """Red when one of the checks against the record is left out."""
    run.row(0, 0.0, ((1.0, 1.0), (2.5, 1.0), (3.0, 1.0)))
    assert judge_timing(run.open())[0][0].underrun_largest_s == 0.5
    run.lines[:] = mutate(run.lines)
    rows, _ = judge_timing(run.open())
    assert missing(rows[0], *UNDERRUNS) == {DISAGREES}
    assert rows[0].e2e_s == 3.0


# --- audible audio ----------------------------------------------------------------------------------------------------


def test_a_silent_first_packet_wins_nothing(run: HandRun) -> None:
    """80 ms of silence at 0.5 s, the rest 1.12 s late, 120 ms more of it silent. Red when leading silence is not added,
    or when the listener is said to hear speech before it arrived."""
    run.row(0, 0.0, ((0.5, 0.08), (1.7, 7.2)), silence_s=0.2)
    rows, _ = judge_timing(run.open())
    assert (rows[0].first_audio_s, rows[0].leading_silence_s) == (0.5, 0.2)
    assert rows[0].first_audible_s == pytest.approx(0.7, abs=1e-12)  # one float64 addition
    assert rows[0].first_heard_s == pytest.approx(1.82, abs=1e-12)


def test_audio_that_cannot_be_heard_has_no_first_audible_time(run: HandRun) -> None:
    """Red when a missing, swapped, broken or wholly silent file gives a leading silence, least of all 0."""
    for index, silence_s in enumerate((0.0, 0.0, 0.0, 2.0)):
        run.row(index, 0.0, ((1.0, 1.0), (2.0, 1.0)), silence_s=silence_s)
    wav = run.run_dir / "wav"
    (wav / "u0.wav").unlink()
    (wav / "u1.wav").write_bytes(wav_bytes(tone(2000), RATE_HZ))
    (wav / "u2.wav").write_bytes(b"RIFF")
    rows, summary = judge_timing(run.open(concurrency=4))
    reasons = [missing(row, "leading_silence_s", "first_audible_s", "first_heard_s") for row in rows]
    assert reasons == [
        {"no usable WAV: missing_wav"},
        {"no usable WAV: wav_mismatch"},
        {"no usable WAV: undecodable"},
        {"silence throughout"},
    ]
    assert [row.first_audio_s for row in rows] == [1.0] * 4
    assert (summary.coverage.rows_measured, summary.rows.first_audible_s) == (4, None)


# --- goodput ----------------------------------------------------------------------------------------------------------


def test_goodput_counts_rows_that_keep_every_limit(run: HandRun) -> None:
    """Red when any limit is enough, a limit that is just kept counts as broken, or a failed row counts as good."""
    run.row(0, 0.0, STEADY)
    run.row(1, 0.0, ONE_LATE)
    run.row(2, 0.0, ((0.4, 1.0), (0.5, 1.0)))
    run.records.append(request_without_audio(3, RowStatus.FAILED, submitted_s=0.0, finished_s=2.0))
    _, summary = judge_timing(run.open(concurrency=4), {"first_audio_s": 0.3, "underrun_largest_s": 0.1})
    assert summary.goodput is not None
    assert (summary.goodput.rows_good, summary.goodput.rows_undecided, summary.goodput.rows_per_wall_s) == (1, 0, 1 / 2)


def test_goodput_is_unknown_while_a_row_is_undecided(run: HandRun) -> None:
    """A row of one chunk has no continuity; one that breaks another limit is bad all the same. Red when n/a passes for
    good, or for bad."""
    run.row(0, 0.0, ((0.25, 2.0),))
    run.row(1, 0.0, ((0.75, 2.0),))
    _, summary = judge_timing(run.open(), {"first_audio_s": 0.3, "underrun_largest_s": 0.1})
    assert summary.goodput is not None
    assert (summary.goodput.rows_good, summary.goodput.rows_undecided) == (0, 1)
    assert summary.goodput.rows_per_wall_s_missing == "1 rows lack a limited figure"


def test_limits_on_nothing_are_refused_all_at_once(run: HandRun) -> None:
    """Red when a mistyped limit is ignored, and so every row keeps it."""
    source = busy(run).open()
    with pytest.raises(InvalidInput, match="first_audio") as refused:
        judge_timing(source, {"first_audio": 0.3, "rtfx_request": 1.0, "e2e_s": float("nan"), "gap_largest_s": -1.0})
    assert len(refused.value.problems) == 4
    assert (
        judge_timing(source, {"e2e_s": 1.0})[1].scorer_sha256 != judge_timing(source, {"e2e_s": 2.0})[1].scorer_sha256
    )
    assert judge_timing(source)[1].goodput_missing == "no limits were given"
