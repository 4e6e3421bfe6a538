"""`score`: a table that can be read and searched, rows listed by name, and the exit code of each outcome."""

from __future__ import annotations

from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.harness import pipe_read_once, refuse_writing, ttsbench
from tests.records.builders import manifest, request_without_audio
from tests.score.runs import FakeAsr, fake_protocol, spoken, wav_bytes, write_run
from tests.score.test_frames import traced_run, write_trace
from ttsbench.cli.main import app
from ttsbench.records import RequestRecord, RowStatus, read_scores
from ttsbench.score.protocol import PROTOCOLS

TEXT = "one two three four"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test heard is not there for the next."""
    monkeypatch.setenv("TTSBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> dict[int, str | Exception]:
    """What the recogniser of protocol fake-1 hears in each row."""
    words: dict[int, str | Exception] = {}
    monkeypatch.setitem(PROTOCOLS, "fake-1", fake_protocol(FakeAsr(words)))
    return words


def run_of(folder: Path, rows: int, *without_audio: RequestRecord) -> Path:
    return write_run(folder, [*(spoken(folder, i, TEXT) for i in range(rows)), *without_audio])


def figures(out: str) -> dict[str, list[str]]:
    """Cells of the table by the name of their row."""
    lines = [line.strip("│┃").split("│") for line in out.splitlines() if line.startswith("│")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


def test_all_rows_ok(tmp_path: Path, heard: dict[int, str | Exception]) -> None:
    """Goes red when a figure stands under another's name, or a run without a fault is not exit code 0."""
    heard |= {0: TEXT, 1: "one two four four five"}
    ended = ttsbench("score", run_of(tmp_path, 2), "--only", "wer", "--protocol", "fake-1")
    assert ended.code == 0, ended.err
    table = figures(ended.out)
    assert [table["corpus WER"][place] for place in (0, 2)] == ["25.00 %", "25.00 %"]
    assert [table["sentence mean WER"][place] for place in (0, 2)] == ["25.00 %", "25.00 %"]
    assert table["substitutions/deletions/insertions"] == ["1/0/1", "", "1/0/1"]
    assert table["rows"] == ["2", "", "2"]
    assert table["reference words"] == ["8", "", "8"]
    assert table["rows charged"] == ["0", "", ""]
    assert (tmp_path / "scores.json").exists()


def test_everything_is_judged_unless_less_is_asked_for(tmp_path: Path, heard: dict[int, str | Exception]) -> None:
    """Goes red when a scorer is left out by default, or one that was not asked for costs its time."""
    heard |= {0: TEXT}
    run = run_of(tmp_path, 1)
    assert ttsbench("score", run, "--only", "timing").code == 0
    summary = read_scores(run)
    assert (summary.wer, summary.speaker) == ({}, None)
    assert summary.timing is not None
    ended = ttsbench("score", run, "--protocol", "fake-1")
    summary = read_scores(run)
    assert summary.wer.keys() == {"fake-1"}
    assert summary.sources.keys() == {"speaker", "frames", "pcm", "timing"}
    for title in ("WER, protocol fake-1", "speaker similarity", "frame trace", "PCM audit (inferred)", "timing"):
        assert title in ended.out


def test_only_what_was_judged_now_is_shown(tmp_path: Path, heard: dict[int, str | Exception]) -> None:
    """Goes red when figures of an earlier scoring, which may be of other sounds, stand beside new ones."""
    heard |= {0: TEXT}
    run = run_of(tmp_path, 1)
    assert ttsbench("score", run, "--only", "wer", "--protocol", "fake-1").code == 0
    ended = ttsbench("score", run, "--only", "timing")
    assert "fake-1" not in ended.out
    assert read_scores(run).wer.keys() == {"fake-1"}


def test_a_missing_recogniser_is_told_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes red when other scorers have run and written before it is looked for."""
    monkeypatch.setenv("TTSBENCH_MODELS", str(tmp_path / "none"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "none"))
    run = run_of(tmp_path, 1)
    ended = ttsbench("score", run, "--protocol", "seedtts-official-1")
    assert ended.code == 2
    assert not (run / "scores.json").exists()


def test_rows_that_a_scorer_could_not_measure_are_no_success(tmp_path: Path) -> None:
    """Goes red when a run with failed rows passes as long as words are not asked for."""
    run = run_of(tmp_path, 1, request_without_audio(1, RowStatus.FAILED, TEXT))
    ended = ttsbench("score", run, "--only", "pcm")
    assert ended.code == 4
    assert "pcm: no figure of u1: failed" in ended.err


def test_a_scorer_that_does_not_exist_is_refused_before_work(tmp_path: Path) -> None:
    """Goes red when a misspelled name judges nothing and says that all is well."""
    ended = ttsbench("score", run_of(tmp_path, 1), "--only", "words")
    assert ended.code == 2
    assert "wer, speaker, frames, pcm, timing, got words" in ended.err
    assert not (tmp_path / "scores.json").exists()


def test_a_lost_frame_is_named_and_no_success(tmp_path: Path) -> None:
    """Goes red when a row whose frames were lost on the way passes with exit code 0."""
    lines = traced_run(tmp_path)
    write_trace(tmp_path, [*lines[:1], *lines[2:]])
    ended = ttsbench("score", tmp_path, "--only", "frames")
    assert ended.code == 4, ended.err
    assert "frames of u0: " in ended.err
    assert "missing" in ended.err


@pytest.mark.parametrize(("reports", "code"), [(True, 4), (False, 0)])
def test_a_row_whose_frames_are_untold_is_no_success_where_the_engine_tells_them(
    tmp_path: Path, reports: bool, code: int
) -> None:
    """One emission without frames, of four rows. Goes red when it passes with exit code 0, or when an engine that never
    reports frames fails all its rows.
    """
    made = manifest(rows=4, engine=manifest().engine.revised(reports_frames=reports))
    lines = traced_run(tmp_path, made)
    blank = {"start_frame": None, "start_frame_missing": "a server", "end_frame": None, "end_frame_missing": "a server"}
    write_trace(tmp_path, [lines[0].revised(**blank), *lines[1:]])
    ended = ttsbench("score", tmp_path, "--only", "frames")
    assert ended.code == code, ended.err


def test_a_row_without_a_record_is_no_success_of_the_frame_audit(tmp_path: Path) -> None:
    """Four rows of five. Goes red when the missing one passes with exit code 0."""
    traced_run(tmp_path, manifest(rows=5))
    ended = ttsbench("score", tmp_path, "--only", "frames")
    assert ended.code == 4, ended.err


def test_emissions_of_no_row_are_told_and_no_success(tmp_path: Path) -> None:
    """Goes red when frames that belong to nobody pass because every row that is there is clean."""
    lines = traced_run(tmp_path)
    stray = lines[-1].revised(row_index=7, utterance_id="u7")
    write_trace(tmp_path, [*lines, stray])
    ended = ttsbench("score", tmp_path, "--only", "frames")
    assert ended.code == 4, ended.err
    assert "1 emissions belong to no recorded row" in ended.err


def test_a_row_is_named_once_for_what_all_scorers_say_of_it(tmp_path: Path, heard: dict[int, str | Exception]) -> None:
    """Goes red when a failed row of a run comes up once for every scorer: the list is then four times as long."""
    heard |= {0: TEXT}
    run = run_of(tmp_path, 1, request_without_audio(1, RowStatus.FAILED, TEXT))
    ended = ttsbench("score", run, "--only", "wer", "--only", "speaker", "--only", "pcm", "--protocol", "fake-1")
    assert ended.code == 4
    assert ended.err.count("u1: failed") == 1


def test_the_report_is_written_in_every_form_asked_for(tmp_path: Path, heard: dict[int, str | Exception]) -> None:
    """Goes red when a form is left out, or written before the scores that it shows."""
    heard |= {0: TEXT}
    out = tmp_path / "out"
    forms = ("--markdown", tmp_path / "report.md", "--plots", out / "plots", "--export", out / "rows")
    ended = ttsbench("score", run_of(tmp_path, 1), "--only", "wer", "--protocol", "fake-1", *forms)
    assert ended.code == 0, ended.err
    assert "fake-1" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert (out / "plots" / "wer.svg").exists()
    assert (out / "rows" / "wer-fake-1.parquet").exists()


def test_charged_rows_are_named_and_weigh_in(tmp_path: Path, heard: dict[int, str | Exception]) -> None:
    """Goes red when failures leave the headline figure, are not listed by id and cause, or pass with exit code 0."""
    heard |= {0: TEXT}
    failed = request_without_audio(1, RowStatus.FAILED, TEXT)
    ended = ttsbench("score", run_of(tmp_path, 1, failed), "--only", "wer", "--protocol", "fake-1")
    assert ended.code == 4
    table = figures(ended.out)
    assert [table["corpus WER"][place] for place in (0, 2)] == ["50.00 %", "0.00 %"]
    assert table["rows charged"] == ["1", "", ""]
    assert "charged u1: failed, broken: it broke" in ended.err
    assert "u0" not in ended.err


def test_a_broken_recogniser_is_an_incomplete_result(tmp_path: Path, heard: dict[int, str | Exception]) -> None:
    """Goes red when rows that could not be scored count as right or wrong, or the exit code says that all is well."""
    heard |= {0: TEXT, 1: RuntimeError("out of memory")}
    ended = ttsbench("score", run_of(tmp_path, 2), "--only", "wer", "--protocol", "fake-1")
    assert ended.code == 5
    assert "unscored u1: asr_error, RuntimeError: out of memory" in ended.err
    assert "incomplete: the recogniser broke on 1 rows" in ended.err
    assert figures(ended.out)["rows unscored"] == ["1", "", ""]


def test_rows_that_have_no_record_are_charged(tmp_path: Path, heard: dict[int, str | Exception]) -> None:
    """Goes red when a run that lost rows scores as if it had been smaller."""
    heard |= {0: TEXT}
    write_run(tmp_path, [spoken(tmp_path, 0, TEXT), spoken(tmp_path, 1, TEXT)])
    log = (tmp_path / "requests.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "requests.jsonl").write_text(log[0], encoding="utf-8")
    ended = ttsbench("score", tmp_path, "--only", "wer", "--protocol", "fake-1")
    assert ended.code == 4
    assert "charged row 1: missing_record" in ended.err


@pytest.mark.parametrize("protocol", ["fake-1", "no-such"])
def test_what_is_no_run_is_invalid_input(tmp_path: Path, heard: dict[int, str | Exception], protocol: str) -> None:
    """Goes red when a wrong folder or protocol ends in a traceback, or in a score of nothing."""
    empty = tmp_path / "empty"
    empty.mkdir()
    ended = ttsbench(
        "score", empty if protocol == "fake-1" else run_of(tmp_path, 1), "--only", "wer", "--protocol", protocol
    )
    assert ended.code == 2
    assert ("a run folder with run.json" if protocol == "fake-1" else "f5-tts, fake-1, got") in ended.err


def test_a_table_that_nobody_reads_to_its_end_changes_no_exit_code(
    tmp_path: Path, heard: dict[int, str | Exception]
) -> None:
    """Goes red when `score RUN | head -1` ends with the exit code of a closed pipe (rich's is 1), not the run's own."""
    heard |= {0: TEXT}
    run = run_of(tmp_path, 1, request_without_audio(1, RowStatus.FAILED, TEXT))
    with (
        pytest.raises(SystemExit) as ended,
        pipe_read_once() as stream,
        redirect_stdout(stream),
    ):
        app(["score", str(run), "--only", "wer", "--protocol", "fake-1"])
    assert ended.value.code == 4


def test_a_row_cut_at_its_limit_counts_though_it_was_charged(tmp_path: Path, heard: dict[int, str | Exception]) -> None:
    """Goes red when only scored rows are looked at: this runaway is silent, so it is charged."""
    heard |= {0: TEXT}
    cut: dict[str, Any] = {"status": RowStatus.LENGTH, "finish_reason": "length"}
    run = write_run(
        tmp_path, [spoken(tmp_path, 0, TEXT, **cut), spoken(tmp_path, 1, TEXT, wav_bytes(np.zeros(4000)), **cut)]
    )
    table = figures(ttsbench("score", run, "--only", "wer", "--protocol", "fake-1").out)
    assert table["rows cut at their frame limit"] == ["2", "", ""]
    assert table["rows charged"] == ["1", "", ""]


def test_a_run_that_cannot_be_written_to_is_found_before_any_row_is_transcribed(
    tmp_path: Path, heard: dict[int, str | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goes red when an hour of transcribing comes before the news that nothing can be kept."""
    heard |= {0: TEXT}
    refuse_writing(monkeypatch)
    monkeypatch.setattr("ttsbench.score.run.judge_row", lambda *_: pytest.fail("a row was transcribed"))
    ended = ttsbench("score", run_of(tmp_path, 1), "--only", "wer", "--protocol", "fake-1")
    assert ended.code == 2
    assert f"{tmp_path}: expected a folder that can be written to" in ended.err


def test_a_cancelled_row_is_listed_without_placeholders(tmp_path: Path, heard: dict[int, str | Exception]) -> None:
    """Goes red when the list talks of codes and details that a cancelled row does not have."""
    heard |= {0: TEXT}
    ended = ttsbench(
        "score",
        run_of(tmp_path, 1, request_without_audio(1, RowStatus.CANCELLED)),
        "--only",
        "wer",
        "--protocol",
        "fake-1",
    )
    assert "charged u1: cancelled, no utterance to judge\n" in ended.err


def test_a_broken_manifest_is_named(tmp_path: Path, heard: dict[int, str | Exception]) -> None:
    """Goes red when an unreadable run.json ends in a traceback."""
    (tmp_path / "run.json").write_text("{}")
    ended = ttsbench("score", tmp_path, "--only", "wer", "--protocol", "fake-1")
    assert ended.code == 2
    assert str(tmp_path / "run.json") in ended.err


def test_piped_output_is_plain_and_unwrapped(
    tmp_path: Path, heard: dict[int, str | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goes red when colours reach a pipe, a narrow COLUMNS wraps a cell, or progress mixes into the table."""
    monkeypatch.setenv("COLUMNS", "40")
    run = tmp_path / ("a_rather_long_name_for_a_run_folder_" * 3)
    run.mkdir()
    heard |= {0: TEXT}
    ended = ttsbench("score", run_of(run, 1), "--only", "wer", "--protocol", "fake-1")
    assert "\x1b" not in ended.out + ended.err
    assert ended.out.splitlines()[0] == f"{run}:"
    assert "WER, protocol fake-1" in ended.out
    assert "substitutions/deletions/insertions" in figures(ended.out)
    assert "wer: 1/1 rows" in ended.err
    assert "wer:" not in ended.out


@pytest.mark.parametrize("target", ["requests.jsonl", "scores.json", "wav/u9.md", "scores/report.md"])
def test_a_report_never_takes_the_place_of_a_record(tmp_path: Path, target: str) -> None:
    """Goes red when the run's own records can be named as the file to write, there already or not."""
    run = run_of(tmp_path, 1)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    ended = ttsbench("score", run, "--only", "timing", "--markdown", run / target)
    assert ended.code == 2
    assert "a place apart from the run's records" in ended.err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_targets_are_checked_before_work_and_all_faults_told(tmp_path: Path) -> None:
    """Goes red when somebody's file is overwritten, or a wrong target is found after the judging."""
    run, other = tmp_path / "run", tmp_path / "notes.txt"
    run.mkdir()
    other.write_text("mine", encoding="utf-8")
    ended = ttsbench("score", run_of(run, 1), "--only", "timing", "--markdown", other, "--plots", other)
    assert ended.code == 2
    assert "a new file, or an earlier report" in ended.err
    assert f"a folder, got the file {other}" in ended.err
    assert (other.read_text(encoding="utf-8"), (run / "scores.json").exists()) == ("mine", False)


def test_a_report_may_replace_an_earlier_one(tmp_path: Path) -> None:
    """In a folder that is made for it. Goes red when a second scoring cannot update its report."""
    run, report = tmp_path / "run", tmp_path / "new" / "report.md"
    run.mkdir()
    run_of(run, 1)
    for _ in range(2):
        assert ttsbench("score", run, "--only", "timing", "--markdown", report).code == 0
    assert report.read_bytes().startswith(b"## ttsbench score")


def test_a_protocol_that_does_not_exist_is_refused_even_where_no_words_are_judged(tmp_path: Path) -> None:
    """Goes red when a misspelled id passes because nothing looked at it."""
    ended = ttsbench("score", run_of(tmp_path, 1), "--only", "timing", "--protocol", "no-such")
    assert ended.code == 2
