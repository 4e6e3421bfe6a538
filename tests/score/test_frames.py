"""From a run folder to the audit of its trace: every row is in it, and nothing is proven that was not looked at."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import CUSTOM_VOICE, terse, ttsbench, write_list
from tests.records.builders import counts, manifest, request, request_without_audio
from tests.score.runs import write_run
from ttsbench.records import (
    RecordError,
    RequestRecord,
    RowStatus,
    RunFolder,
    RunManifest,
    RunStatus,
    TraceRecord,
    read_trace,
    write_atomic,
)
from ttsbench.records.frames import FrameFault, FramesOutcome, FramesRow, FramesSummary
from ttsbench.score.frames import judge_frames
from ttsbench.score.source import RunSource
from ttsbench.trace import upper_bound

HOP = 1920
NEVER_SUBMITTED: dict[str, Any] = {
    "submitted_s": None,
    "submitted_s_missing": "never submitted",
    "finished_s": None,
    "finished_s_missing": "never submitted",
}
Judged = tuple[tuple[FramesRow, ...], FramesSummary]


def judge(run_dir: Path) -> Judged:
    """The audit, twice: it must not depend on anything but the folder, nor write to it."""
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    judged, again = (judge_frames(RunSource.open(run_dir)) for _ in range(2))
    assert judged == again
    assert before == {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    assert [row.row_index for row in judged[0]] == list(range(judged[1].coverage.rows_expected))
    return judged


def spoken_frames(row_index: int, frames: int, **changes: Any) -> RequestRecord:
    samples = frames * HOP
    fields: dict[str, Any] = {
        "frames_generated": frames,
        "frames": frames,
        "samples": samples,
        "duration_s": samples / 24_000,
    }
    return request(row_index, **fields | changes)


def lines(row_index: int, frames: int, attempt: int = 1, finish: str = "stop") -> list[TraceRecord]:
    """Frame by frame, then an empty terminal."""
    made = []
    for index in range(frames + 1):
        last = index == frames
        fields = {
            "row_index": row_index,
            "utterance_id": f"u{row_index}",
            "attempt": attempt,
            "index": index,
            "emitted_at_ns": index,
            "start_frame": index,
            "end_frame": index if last else index + 1,
            "context_frames": 0,
            "chunk_target": 1,
            "samples": 0 if last else HOP,
            "sample_rate_hz": 24_000,
            "terminal": last,
            "reason": None,
            "reason_missing": "not said",
            "finish_reason": finish if last else None,
        }
        made.append(TraceRecord.model_validate(fields))
    return made


def write_trace(run_dir: Path, made: list[TraceRecord], torn: bytes = b"") -> None:
    data = b"".join(line.model_dump_json().encode() + b"\n" for line in made)
    write_atomic(RunFolder(run_dir).trace, data + torn)


def traced_run(run_dir: Path, made: RunManifest | None = None) -> list[TraceRecord]:
    """Four rows of 6 frames; the lines of their trace, as written."""
    write_run(run_dir, [spoken_frames(index, 6) for index in range(4)], made)
    trace = [line for index in range(4) for line in lines(index, 6)]
    write_trace(run_dir, trace)
    return trace


@pytest.fixture(scope="module")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six rows spoken two at a time by a toy checkpoint, in chunks of 3 frames; some end, some are cut."""
    folder = tmp_path_factory.mktemp("real")
    model = terse(CUSTOM_VOICE, folder / "toy")
    made = write_list(folder / "en" / "meta.lst", *(f"{name}|Row {name}." for name in "abcdef"))
    options = ("--seed", 7, "--max-frames", 4, "--concurrency", 2, "--override", "codec_chunk_frames=3")
    assert ttsbench("synth", "--set", made, "--model", model, "--out", folder / "run", *options).code in (0, 4)
    return folder / "run"


def test_a_real_run_is_clean(real_run: Path) -> None:
    """Red when a rule finds fault with what the engine rightly does: chunks of 3, a rest, an empty end, a cut row."""
    rows, summary = judge(real_run)
    assert {row.status for row in rows} == {RowStatus.OK, RowStatus.LENGTH}, "the toy was to end some rows itself"
    assert [row.findings for row in rows] == [()] * 6
    figures = summary.figures
    assert figures is not None
    assert (figures.rows_affected, figures.terminals, figures.attempts, figures.clean) == (0, 6, 6, True)
    assert figures.rows_end_unchecked == 0
    assert figures.emissions == len(trace := read_trace(real_run).records)
    assert {(line.chunk_target, line.context_frames) for line in trace} == {(3, 0)}
    assert {line.reason for line in trace if line.terminal} == {"flush"}
    assert figures.affected_upper_95_pct == pytest.approx(100 * (1 - 0.05 ** (1 / 6)))
    assert summary.concurrency == 2


Spoil = Callable[[list[TraceRecord], int], list[TraceRecord]]


def lose(trace: list[TraceRecord], at: int) -> list[TraceRecord]:
    return trace[:at] + trace[at + 1 :]


def double(trace: list[TraceRecord], at: int) -> list[TraceRecord]:
    return [*trace[: at + 1], *trace[at:]]


def shift(trace: list[TraceRecord], at: int) -> list[TraceRecord]:
    """An emission stands under another row, under that row's name."""
    line = trace[at]
    other = next(other for other in trace if other.row_index != line.row_index)
    return [*trace[:at], line.revised(row_index=other.row_index, utterance_id=other.utterance_id), *trace[at + 1 :]]


@pytest.mark.parametrize(
    ("spoil", "affected"), [(lose, 1), (double, 1), (shift, 2)], ids=["lost", "doubled", "under another row"]
)
def test_any_spoilt_line_of_a_real_trace_is_found(real_run: Path, tmp_path: Path, spoil: Spoil, affected: int) -> None:
    """Every line of the trace in turn, terminals too. Red when lines are grouped by anything but row and attempt."""
    run = tmp_path / "run"
    shutil.copytree(real_run, run)
    trace = list(read_trace(real_run).records)
    for at, line in enumerate(trace):
        write_trace(run, spoil(trace, at))
        rows, summary = judge_frames(RunSource.open(run))
        assert rows[line.row_index].outcome is FramesOutcome.AFFECTED, f"line {at + 1}"
        assert summary.figures is not None
        assert summary.figures.rows_affected == affected, f"line {at + 1}"


def test_what_was_lost_and_repeated_adds_up(tmp_path: Path) -> None:
    """Row 0 loses frames 2 and 3, row 1 repeats 0 and 3, row 2 loses 0 and repeats 5, row 3 is clean.

    Red when a sum leaves a row out, counts findings for frames or for rows, or mixes up positions; and when seconds are
    not frames x hop / rate.
    """
    lost, doubled = {(0, 2), (0, 3), (2, 0)}, {(1, 0), (1, 3), (2, 5)}
    trace = [line for line in traced_run(tmp_path) if (line.row_index, line.index) not in lost]
    write_trace(tmp_path, [line for line in trace for _ in range(1 + ((line.row_index, line.index) in doubled))])
    rows, summary = judge(tmp_path)
    assert [row.outcome.value for row in rows] == ["affected", "affected", "affected", "clean"]
    figures = summary.figures
    assert figures is not None
    assert (figures.rows_affected, figures.affected_pct) == (3, 75)
    assert figures.affected_upper_95_pct == pytest.approx(100 * upper_bound(3, 4))
    assert (figures.frames_missing, figures.gap_events) == (3, 2)
    assert (figures.frames_repeated, figures.replay_events) == (3, 3)
    assert [figures.missing_s, figures.repeated_s] == pytest.approx([0.24, 0.24])
    assert figures.missing_by_position.model_dump() == {"first": 1, "steady": 2, "tail": 0}
    assert figures.repeated_by_position.model_dump() == {"first": 0, "steady": 3, "tail": 0}
    assert (figures.findings_by_fault["repeated"], figures.rows_by_fault["repeated"]) == (3, 2)
    assert figures.rows_by_fault["row_samples"] == 2  # row 2 loses as many samples as it repeats
    assert not figures.clean


def test_every_attempt_is_audited(tmp_path: Path) -> None:
    """The row was cancelled after 2 frames and spoken at the second try; the fault is in the first. Red when only the
    latest attempt is looked at, or two attempts' frames are taken for one stream.
    """
    write_run(
        tmp_path,
        [
            request_without_audio(
                0,
                RowStatus.CANCELLED,
                frames_generated=2,
                samples=2 * HOP,
                sample_rate_hz=24_000,
                sample_rate_hz_missing=None,
                duration_s=0.16,
                duration_s_missing=None,
            ),
            spoken_frames(0, 3, attempt=2),
        ],
        manifest(rows=1),
    )
    trace = [*lines(0, 2, finish="cancelled"), *lines(0, 3, attempt=2)]
    write_trace(tmp_path, trace)
    (row,), summary = judge(tmp_path)
    assert row.counts is not None
    assert (row.outcome, row.counts.attempts, row.counts.terminals) == (FramesOutcome.CLEAN, 2, 2)
    write_trace(tmp_path, double(trace, 1))
    (row,), summary = judge(tmp_path)
    assert {finding.attempt for finding in row.findings} == {1}
    assert summary.figures is not None
    assert (summary.figures.rows_affected, summary.figures.frames_repeated) == (1, 1)


def test_a_submitted_row_without_a_line_has_lost_its_end(tmp_path: Path) -> None:
    """Red when a row that the trace says nothing of is left out of the audit."""
    trace = traced_run(tmp_path)
    write_trace(tmp_path, [line for line in trace if line.row_index != 2])
    rows, _ = judge(tmp_path)
    expected = {FrameFault.MISSING, FrameFault.NO_TERMINAL, FrameFault.ROW_SAMPLES}
    assert {finding.fault for finding in rows[2].findings} == expected


def test_a_lost_tail_is_found_by_the_producers_count(tmp_path: Path) -> None:
    """Row 0 generated 8 frames and emitted 6, whole in themselves; row 1 does not say. Red when the count comes from
    what was emitted, or an end nobody checked passes for a checked one.
    """
    unsaid = {"frames_generated": None, "frames_generated_missing": "the engine does not say"}
    write_run(tmp_path, [spoken_frames(0, 6, frames_generated=8), spoken_frames(1, 6, **unsaid)], manifest(rows=2))
    write_trace(tmp_path, [*lines(0, 6), *lines(1, 6)])
    rows, summary = judge(tmp_path)
    assert {finding.fault for finding in rows[0].findings} == {FrameFault.MISSING, FrameFault.ROW_SAMPLES}
    figures = summary.figures
    assert figures is not None
    assert (figures.frames_missing, figures.missing_by_position.tail) == (2, 2)
    assert (figures.rows_affected, figures.rows_end_unchecked) == (1, 1)


def test_a_row_cut_where_the_models_length_ends_is_clean(tmp_path: Path) -> None:
    """6 of 256 frames, all there was room for; the same row with room for 7 is not clean. Red when only max_frames
    counts.
    """
    cut: dict[str, Any] = {"status": RowStatus.LENGTH, "finish_reason": "length"}
    made = manifest(rows=2, counts=counts(2, length=2))
    write_run(tmp_path, [spoken_frames(0, 6, frame_limit=6, **cut), spoken_frames(1, 6, frame_limit=7, **cut)], made)
    write_trace(tmp_path, [*lines(0, 6, finish="length"), *lines(1, 6, finish="length")])
    rows, _ = judge(tmp_path)
    assert [[finding.fault.value for finding in row.findings] for row in rows] == [[], ["length_limit"]]


def test_lines_under_no_row_are_counted(tmp_path: Path) -> None:
    """An emission under a row, or an attempt, that does not exist. Red when such lines vanish."""
    trace = traced_run(tmp_path)
    strays = [trace[0].revised(row_index=9), trace[0].revised(attempt=2)]
    write_trace(tmp_path, [*trace, *strays], torn=b'{"schema')
    rows, summary = judge(tmp_path)
    figures = summary.figures
    assert figures is not None
    assert (figures.emissions_without_record, figures.trace_torn_bytes) == (2, 8)
    assert (figures.rows_affected, figures.clean) == (0, False)
    assert len(rows) == 4


def test_a_run_without_a_trace_has_no_figures(tmp_path: Path) -> None:
    """Red when nothing looked at becomes nothing found."""
    settings = manifest().settings.revised(tracing=False)
    traced_run(tmp_path, manifest(rows=4, settings=settings))
    RunFolder(tmp_path).trace.unlink()
    rows, summary = judge(tmp_path)
    assert (summary.figures, summary.figures_missing) == (None, "the run was made without tracing")
    assert {(row.outcome, row.cause) for row in rows} == {(FramesOutcome.NOT_AUDITED, "not_traced")}
    assert summary.coverage.failed_by_cause == {"not_traced": 4}


def test_a_trace_that_is_gone_leaves_the_result_incomplete(tmp_path: Path) -> None:
    """Red when losing trace.jsonl looks like having run without one."""
    traced_run(tmp_path)
    RunFolder(tmp_path).trace.unlink()
    _, summary = judge(tmp_path)
    assert summary.figures is None
    assert summary.coverage.unscored_by_cause == {"trace_missing": 4}
    assert not summary.coverage.complete


def test_an_engine_that_reports_no_frames_is_not_audited(tmp_path: Path) -> None:
    """As it says of itself, or line by line. Red when unknown frames are taken for none."""
    engine = manifest().engine.revised(reports_frames=False)
    trace = traced_run(tmp_path, manifest(rows=4, engine=engine))
    rows, summary = judge(tmp_path)
    assert {row.cause for row in rows} == {"frames_not_reported"}
    assert summary.figures_missing == "the engine does not report frames"
    traced_run(tmp_path)
    blank = {"start_frame": None, "start_frame_missing": "a server", "end_frame": None, "end_frame_missing": "a server"}
    write_trace(tmp_path, [trace[0].revised(**blank), *trace[1:]])
    rows, summary = judge(tmp_path)
    assert [row.cause for row in rows] == ["frames_not_reported", None, None, None]
    assert rows[0].cause_detail == "emission 0 has no frames: a server"
    assert summary.coverage.rows_measured == 3


def test_every_expected_row_stands_under_one_heading(tmp_path: Path) -> None:
    """A spoken row, one never submitted, one that failed before its first frame, one the run did not get to.

    Red when a row is left out, or a row that never reached the engine counts as proof.
    """
    records = [
        spoken_frames(0, 6),
        request_without_audio(1, RowStatus.INVALID, **NEVER_SUBMITTED),
        request_without_audio(2, RowStatus.FAILED),
    ]
    write_run(tmp_path, records, manifest(rows=4, status=RunStatus.INTERRUPTED))
    write_trace(tmp_path, [*lines(0, 6), *lines(2, 0, finish="failed")])
    rows, summary = judge(tmp_path)
    assert [(row.outcome.value, row.cause) for row in rows] == [
        ("clean", None),
        ("not_audited", "never_submitted"),
        ("clean", None),
        ("not_audited", "missing_record"),
    ]
    coverage = summary.coverage
    assert (coverage.rows_measured, coverage.rows_failed, coverage.rows_missing) == (2, 1, 1)
    assert not coverage.complete


def test_frames_of_a_row_that_was_never_submitted_are_phantoms(tmp_path: Path) -> None:
    """Red when they are passed over because the row has no audio."""
    write_run(tmp_path, [request_without_audio(0, RowStatus.INVALID, **NEVER_SUBMITTED)], manifest(rows=1))
    write_trace(tmp_path, lines(0, 2))
    (row,), _ = judge(tmp_path)
    assert row.counts is not None
    assert (row.outcome, row.counts.frames_phantom) == (FramesOutcome.AFFECTED, 2)


def test_hop_and_rate_are_the_engines(tmp_path: Path) -> None:
    """Half the hop at half the rate is another engine's, not ours. Red when the scorer knows a hop by heart."""
    engine = manifest().engine.revised(hop_samples=960, sample_rate_hz=12_000)
    traced_run(tmp_path, manifest(rows=4, engine=engine))
    rows, summary = judge(tmp_path)
    expected = {FrameFault.EMISSION_SAMPLES, FrameFault.SAMPLE_RATE, FrameFault.ROW_SAMPLES}
    assert all({finding.fault for finding in row.findings} == expected for row in rows)
    assert (summary.hop_samples, summary.sample_rate_hz) == (960, 12_000)


def test_a_row_recorded_at_another_rate_than_the_engines_is_not_clean(tmp_path: Path) -> None:
    """The engine and the trace say 24 kHz, the record of row 1 says 44.1 kHz. Red when only the trace's rate is looked
    at: then nothing is found.
    """
    trace = traced_run(tmp_path)
    rows = [spoken_frames(index, 6) for index in range(4)]
    rows[1] = rows[1].revised(sample_rate_hz=44_100, duration_s=rows[1].samples / 44_100)
    write_run(tmp_path, rows)
    write_trace(tmp_path, trace)
    judged, _ = judge(tmp_path)
    assert [[finding.fault for finding in row.findings] for row in judged] == [[], [FrameFault.SAMPLE_RATE], [], []]
    assert judged[1].findings[0].detail == "expected 24000 Hz, 44100 in the record"


def test_a_broken_trace_is_an_error_with_its_line(tmp_path: Path) -> None:
    """Red when a line that cannot be read is skipped."""
    traced_run(tmp_path)
    with RunFolder(tmp_path).trace.open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(RecordError, match=r"trace\.jsonl, line 29"):
        judge_frames(RunSource.open(tmp_path))


def test_rows_and_summary_survive_json(tmp_path: Path) -> None:
    """Red when a field is coerced or lost on the way to disk."""
    trace = traced_run(tmp_path)
    write_trace(tmp_path, double(lose(trace, 3), 9))
    rows, summary = judge(tmp_path)
    assert FramesSummary.model_validate_json(summary.model_dump_json()) == summary
    assert [FramesRow.model_validate_json(row.model_dump_json()) for row in rows] == list(rows)


def test_a_row_cannot_claim_what_its_findings_deny(tmp_path: Path) -> None:
    """Red when a clean row may hold findings, or an unaudited one counts."""
    trace = traced_run(tmp_path)
    write_trace(tmp_path, lose(trace, 3))
    rows, _ = judge(tmp_path)
    with pytest.raises(ValueError, match="cannot be clean"):
        rows[0].revised(outcome=FramesOutcome.CLEAN)
    with pytest.raises(ValueError, match="not_audited"):
        rows[1].revised(outcome=FramesOutcome.NOT_AUDITED)
