"""The tables as data: figures under their names, nothing made up, nothing missing passed off as 0."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.records.builders import manifest
from tests.report.runs import HEARD, TEXT, continuity, coverage, frames, pcm, row_figures, scored_run, timing, wer_run
from ttsbench.records import RunFolder, RunStatus, read_manifest, read_scores
from ttsbench.report import Section, score_table
from ttsbench.report.figures import figure

ROOT = Path(__file__).parents[2]


def table(run_dir: Path) -> dict[str, Section]:
    """Sections of a scored run by title."""
    sections = score_table(run_dir, read_scores(run_dir), read_manifest(run_dir))
    return {section.title: section for section in sections}


def cells(section: Section) -> dict[str, tuple[str, ...]]:
    """Cells by the name of their row, all tables of the section together."""
    return {row[0]: row[1:] for grid in section.grids for row in grid.rows}


def numbers_in(value: Any) -> Iterator[float]:
    """Every number of a record, however deep."""
    if isinstance(value, dict):
        yield from (number for part in value.values() for number in numbers_in(part))
    elif isinstance(value, list):
        yield from (number for part in value for number in numbers_in(part))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def test_no_figure_is_printed_that_is_not_in_the_records(tmp_path: Path) -> None:
    """Every number in a cell is a number of scores.json, as it stands or in milliseconds, rounded.

    Red when the report computes: print `1 / rtf_system + 1` for RTFx, a mean of two means, or rows_expected + 1.
    """
    summary = scored_run(tmp_path, timing=timing(steady_rows=row_figures(8), steady_rows_missing=None))
    known = {*numbers_in(summary.model_dump(mode="json"))}
    for section in score_table(tmp_path, summary, read_manifest(tmp_path)):
        for row in (row for grid in section.grids for row in grid.rows):
            for token in re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"n/a \(\d+\)", "", " ".join(row[1:]))):
                decimals = len(token.partition(".")[2])
                written = {f"{value * scale:.{decimals}f}" for value in known for scale in (1, 1000)}
                assert token in written, (section.title, row)


def test_every_section_has_its_ledger(tmp_path: Path) -> None:
    """Red when a section is shown without the rows that its figures leave out, or with a cause hushed up."""
    scored_run(tmp_path, pcm=pcm(rows=coverage(1, 1, 1, 1)))
    sections = table(tmp_path)
    assert sections.pop("rows").ledger.startswith("run complete: 4 rows expected = 3 ok + 0 length")
    ledger = "4 rows expected = 3 ok + 1 failed + 0 missing + 0 unscored"
    broken = sections.pop("PCM audit (inferred)")
    assert {section.ledger for section in sections.values()} == {ledger}
    assert broken.ledger == "4 rows expected = 1 ok + 1 failed + 1 missing + 1 unscored"
    assert {"failed: 1 broken", "unscored: 1 scorer_error", "INCOMPLETE: rows are missing or unscored"} <= {
        *broken.notes
    }


def test_what_was_not_scored_stands_in_the_ledger(tmp_path: Path) -> None:
    """Red when a scorer that never ran is left out of sight, or has 0 rows."""
    scored_run(tmp_path, speaker=None)
    sections = table(tmp_path)
    assert "speaker similarity" not in sections
    assert cells(sections["rows"])["speaker"] == ("n/a (1)",) * 5
    assert cells(sections["rows"])["timing"] == ("4", "3", "1", "0", "0")
    assert sections["rows"].notes == ("(1) not scored",)


def test_the_runs_own_ledger_counts_its_records(tmp_path: Path) -> None:
    """The last of four rows is gone, and half a line stands in its place. Red when run.json is believed in its stead,
    or the difference, or the torn line, is hushed up."""
    scored_run(tmp_path)
    assert table(tmp_path)["rows"].notes == ()
    requests = RunFolder(tmp_path).requests
    lines = requests.read_bytes().splitlines(keepends=True)
    requests.write_bytes(b"".join(lines[:-1]) + lines[-1][:30])
    rows = table(tmp_path)["rows"]
    ended = "3 ok + 0 length + 0 empty + 0 cancelled + {} failed + 0 invalid"
    assert rows.ledger == f"run complete: 4 rows expected = {ended.format(0)} + 1 without a record"
    assert rows.notes == (
        f"requests.jsonl has changed since the run ended: run.json counts {ended.format(1)}",
        "requests.jsonl ends in 30 torn bytes, which are no record",
    )


def test_a_run_that_never_ended_has_not_counted_yet(tmp_path: Path) -> None:
    """run.json of a killed run counts nothing. Red when its rows show as 0, or its silence as a change of records."""
    scored_run(tmp_path)
    killed = manifest(rows=4, status=RunStatus.RUNNING)
    rows = score_table(tmp_path, read_scores(tmp_path), killed)[0]
    assert rows.ledger.startswith("run running: 4 rows expected = 3 ok + ")
    assert rows.notes == ()


def test_wer_has_charged_rows_in_it_and_survivors_beside_it(tmp_path: Path) -> None:
    """Rows: 0 %, 25 %, 100 % heard as silence, 100 % failed. Red when the two columns are exchanged."""
    scored_run(tmp_path)
    section = table(tmp_path)["WER, protocol fake-1"]
    shown = cells(section)
    assert (shown["sentence mean WER"][0], shown["sentence mean WER"][2]) == ("56.25 %", "41.67 %")
    assert (shown["corpus WER"][0], shown["corpus WER"][2]) == ("56.25 %", "41.67 %")
    assert re.fullmatch(r"\d+\.\d\d to \d+\.\d\d \(95 %\)", shown["corpus WER"][1])
    assert shown["headline"][:2] == shown["sentence mean WER"][:2]
    assert shown["rows above 50 %"] == ("50.00 % (2)", "", "33.33 % (1)")
    assert shown["substitutions/deletions/insertions"] == ("0/9/0", "", "0/5/0")
    assert shown["rows charged"] == ("1", "", "")
    assert shown["empty transcripts"] == ("1", "", "")
    assert shown["rows with trailing deletions"][0] == "1"


def test_a_figure_that_is_missing_says_why(tmp_path: Path) -> None:
    """Red when a null becomes 0, an empty cell or a bare n/a."""
    scored_run(tmp_path)
    section = table(tmp_path)["speaker similarity"]
    shown = cells(section)
    assert shown["own reference"] == ("n/a (1)",) * 4
    assert shown["other rows of the voice"] == ("3", "88.25", "86.74 to 89.98", "81.22")
    assert shown["rows nearest to their own voice"] == ("2 of 3",)
    assert "(1) the voice has no reference clip" in section.notes


def test_a_percentile_that_the_sample_cannot_carry_is_withheld(tmp_path: Path) -> None:
    """64 rows carry a p95 (weak), not a p99. Red when a number appears, or its absence looks like any other."""
    scored_run(tmp_path)
    mean, p50, _, p95, p99 = cells(table(tmp_path)["timing"])["first audio, ms\n(n = 64)"]
    assert p99 == "withheld\n(n = 64)"
    assert p95.startswith("190 weak\n(")
    assert mean == "102"
    assert re.fullmatch(r"102\n\([\d.]+–[\d.]+\)", p50)


def test_speeds_stand_under_their_own_names(tmp_path: Path) -> None:
    """Red when RTF and its inverse are exchanged, or a window that never was has a figure."""
    scored_run(tmp_path)
    section = table(tmp_path)["timing"]
    shown = cells(section)
    assert shown["RTF (system)"] == ("0.4000", "")
    assert shown["RTFx (system)"] == ("2.500", "")
    assert shown["throughput, audio-s/s"][0] == "2.500"
    assert shown["throughput, audio-s/s"][1].startswith("n/a")
    assert any(note.endswith("full concurrency was never reached") for note in section.notes)
    assert "CAVEAT: tracing was on" in section.notes


def test_no_chunk_to_wait_for_is_not_a_playback_without_stalls(tmp_path: Path) -> None:
    """Red when a run whose continuity is undefined shows 0 stalls, or 0 rows within a limit."""
    scored_run(tmp_path, timing=timing(rows=row_figures(continuity=continuity(0))))
    shown = cells(table(tmp_path)["timing"])
    for name in ("C50, largest stall at most 50 ms", "rows stalled", "stalls", "late chunks"):
        assert shown[name][0].startswith("n/a"), name


def test_no_fault_at_all_leaves_an_upper_bound(tmp_path: Path) -> None:
    """Red when zero of three rows reads like proof."""
    scored_run(tmp_path)
    shown = cells(table(tmp_path)["frame trace"])
    assert shown["rows affected"] == ("0 of 3 (0.00 %)",)
    assert shown["rows affected, 95 % upper bound"] == ("63.16 %",)


def test_a_run_without_a_trace_has_no_frame_figures(tmp_path: Path) -> None:
    """Red when nothing looked at becomes nothing found."""
    scored_run(tmp_path, frames=frames(figures=None, figures_missing="the run has no trace"))
    section = table(tmp_path)["frame trace"]
    assert [grid.rows for grid in section.grids] == [(("rows affected", "n/a (1)"),)]
    assert section.notes[-1] == "(1) the run has no trace"


def test_kinds_of_finding_are_counted_or_named_as_absent(tmp_path: Path) -> None:
    """Red when a kind is in neither list, or the audit passes for a trace."""
    scored_run(tmp_path)
    section = table(tmp_path)["PCM audit (inferred)"]
    assert cells(section)["click"] == ("1", "2")
    assert section.notes[-2].startswith("none found: repeat, dropout, splice, silence")
    assert any("inferred from the audio" in note for note in section.notes)


def test_an_audit_that_heard_nothing_found_nothing_absent(tmp_path: Path) -> None:
    """Red when "none found" is said of rows that were never measured."""
    heard_nothing = pcm({}, coverage(0, 4), rows_affected_pct=None, rows_affected_pct_missing="no row was measured")
    scored_run(tmp_path, pcm=heard_nothing)
    section = table(tmp_path)["PCM audit (inferred)"]
    assert not any("none found" in note for note in section.notes)
    assert cells(section)["rows affected"] == ("0 of 0 (n/a (1))",)


def test_protocols_stand_side_by_side_with_the_rows_that_flip(tmp_path: Path) -> None:
    """The second protocol hears row 1 whole and row 0 with an error. Red when a difference has the wrong sign."""
    wer_run(tmp_path, {"strict": HEARD, "kind": {0: "one two three or", 1: TEXT, 2: "one two"}})
    section = table(tmp_path)["WER by protocol, same audio"]
    protocols, flips = section.grids
    assert protocols.rows[0] == ("P1", "strict", "56.25 %", "56.25 %", "", "56.25 %", "")
    assert protocols.rows[1] == ("P2", "kind", "43.75 %", "43.75 %", "-12.50", "43.75 %", "-12.50")
    assert flips.header == ("row", "P1", "P2", "changes", "id")
    assert flips.rows == (
        ("0", "0.00", "25.00", "perfect", "u0"),
        ("1", "25.00", "0.00", "perfect", "u1"),
        ("2", "100.00", "50.00", "> 50 %", "u2"),
    )
    assert section.ledger == "3 of 4 rows change their verdict"


def test_a_protocol_that_could_not_be_scored_has_no_figure_in_the_comparison(tmp_path: Path) -> None:
    """Red when a recogniser that broke on every row shows as 0 %, or as a difference of its own."""
    wer_run(tmp_path, {"works": HEARD, "broken": dict.fromkeys(range(3), RuntimeError("no"))})
    summary = read_scores(tmp_path)
    charged_only = summary.wer["broken"].all_rows
    assert charged_only is not None
    assert charged_only.rows == 1
    shown = cells(table(tmp_path)["WER, protocol broken"])
    assert shown["sentence mean WER"] == ("100.00 %", "n/a (1)", "n/a (2)")
    assert shown["rows unscored"] == ("3", "", "")


@pytest.mark.parametrize("spoilt", ["rows", "requests", "gone"])
def test_figures_of_other_records_are_stale_and_not_compared(tmp_path: Path, spoilt: str) -> None:
    """Red when scores.json is believed though the records under it have changed."""
    wer_run(tmp_path, {"first": HEARD, "second": HEARD})
    folder = RunFolder(tmp_path)
    if spoilt == "gone":
        folder.wer_rows("second").unlink()
    else:
        path = folder.requests if spoilt == "requests" else folder.wer_rows("second")
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-1]))
    sections = table(tmp_path)
    assert "WER by protocol, same audio" not in sections
    assert sections["WER, protocol second"].notes[0].startswith("STALE: ")
    assert sections["WER, protocol first"].notes[0].startswith("STALE: ") == (spoilt == "requests")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.0123, "0.0123"),
        (9.996, "10.00"),
        (91.08, "91.1"),
        (1234.5, "1234"),
        (98765.4, "98765"),
        (-3.14159, "-3.14"),
    ],
)
def test_numbers_keep_their_integer_part(value: float, text: str) -> None:
    """Red when a large figure turns to an exponent or loses digits before the point."""
    assert figure(value) == text


def test_reports_are_made_without_an_engine() -> None:
    """Red when `ttsbench.report` pulls in a room that speaks, or matplotlib before a plot is asked for."""
    code = "import sys, ttsbench.report, ttsbench.report.plots, ttsbench.records.export; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    rooms = {name.split(".")[1] for name in done.stdout.split() if name.startswith("ttsbench.")}
    assert not rooms & {"engine", "models", "kernels", "adapters", "experiment", "cli"}
    assert not {"matplotlib", "pyarrow", "torch"} & {*done.stdout.split()}
