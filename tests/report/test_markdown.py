"""Markdown for a pull request: what the numbers are of, the same tables, and text that cannot break out of its cell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.records.builders import manifest
from tests.report.runs import HASH, scored_run
from ttsbench.records import CodeRevision, Gpu, Hardware, RunManifest, read_manifest, read_scores
from ttsbench.report import render_markdown, render_terminal, score_table, write_markdown
from ttsbench.report.markdown import _line


def markdown(run_dir: Path, made: RunManifest | None = None) -> str:
    return render_markdown(run_dir, read_scores(run_dir), made or read_manifest(run_dir))


def facts(text: str) -> dict[str, str]:
    """The head's table by name."""
    lines = [line.strip("| ").split(" | ", 1) for line in text.split("\n### ")[0].splitlines() if line.startswith("| ")]
    return {line[0]: line[1] for line in lines if len(line) == 2}


def test_the_head_says_what_the_numbers_are_of(tmp_path: Path) -> None:
    """Red when figures travel without their checkpoint, corpus, rules, code or machine."""
    run = tmp_path / "run-7"
    run.mkdir()
    scored_run(run)
    head, made, summary = facts(markdown(run)), read_manifest(run), read_scores(run)
    assert head["run"] == "run-7"
    assert made.checkpoint is not None
    for fact, parts in {
        "profile": ["without a name", made.profile_sha256],
        "checkpoint": ["tiny", made.checkpoint.sha256],
        "corpus": ["mini (en)", "4 of 4 rows", made.corpus.sha256],
        "code": ["0" * 40, "dirty no", made.code.source_sha256],
        "hardware": ["a CPU, 2 cores, 8.0 GiB", "no GPU"],
        "software": ["python 3.11"],
        "settings": ["concurrency 2", "tracing on"],
        "protocol fake-1": [summary.wer["fake-1"].protocol_sha256],
        "scorer speaker": [HASH],
        "scorer timing": [HASH],
    }.items():
        for part in parts:
            assert part in head[fact], fact


def test_what_is_unknown_of_a_run_says_why(tmp_path: Path) -> None:
    """Red when an uncommitted tree passes for a clean one, or an unknown checkpoint for none."""
    scored_run(tmp_path)
    gpu = Gpu(name="H200", uuid="GPU-1", memory_bytes=141 << 30, driver="570")
    changes = {
        "code": CodeRevision(revision="1" * 40, dirty=True, source_sha256=HASH),
        "checkpoint": None,
        "checkpoint_missing": "a remote server",
        "hardware": Hardware(
            cpu_model=None, cpu_model_missing="not told", cpu_cores=2, memory_bytes=1 << 30, gpus=(gpu,)
        ),
    }
    head = facts(markdown(tmp_path, manifest(rows=4).revised(**changes)))
    assert "dirty yes" in head["code"]
    assert head["checkpoint"] == "n/a: a remote server"
    assert head["hardware"] == "n/a: not told, 2 cores, 1.0 GiB; H200, 141.0 GiB, driver 570"


def test_every_cell_and_note_of_the_terminal_is_there(tmp_path: Path) -> None:
    """Red when the two outputs are made apart and drift apart."""
    summary = scored_run(tmp_path)
    text = markdown(tmp_path)
    for section in score_table(tmp_path, summary, read_manifest(tmp_path)):
        for grid in section.grids:
            for row in grid.rows:
                assert _line(row) in text
        assert all(note.replace("_", r"\_").replace("> ", r"\> ") in text for note in section.notes)
    assert "withheld (n = 64)" in text
    assert "withheld" in render_terminal(score_table(tmp_path, summary, read_manifest(tmp_path)))


def test_a_table_has_a_blank_line_before_it_and_equal_columns(tmp_path: Path) -> None:
    """Red when GitHub would show a table as text."""
    scored_run(tmp_path)
    lines = markdown(tmp_path).splitlines()
    for before, header, rule in zip(lines, lines[1:], lines[2:], strict=False):
        if rule.startswith("| ---"):
            assert before == ""
            assert header.count("|") == rule.count("|")


def test_names_cannot_break_out_of_their_cell() -> None:
    """Red when a pipe, a tag, a link or a line break in an utterance id changes the page."""
    line = _line(("a|b", "<img src=x>", "[x](y)", "two\nlines", "_i_ `c` *b*"))
    assert line == r"| a\|b | \<img src=x\> | \[x\](y) | two lines | \_i\_ \`c\` \*b\* |"


def test_the_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a write that fails half way leaves half a report, or a temporary file."""
    summary = scored_run(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    write_markdown(out / "score.md", tmp_path, summary, read_manifest(tmp_path))
    whole = (out / "score.md").read_text(encoding="utf-8")
    assert whole == markdown(tmp_path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=r"score\.md"):
        write_markdown(out / "score.md", tmp_path, summary, manifest(rows=4))
    assert (out / "score.md").read_text(encoding="utf-8") == whole
    assert [path.name for path in out.iterdir()] == ["score.md"]
