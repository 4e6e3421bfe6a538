"""The terminal's text: 100 columns, all of every cell, nothing but plain characters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.report.runs import HEARD, row_figures, scored_run, timing, wer_run
from ttsbench.records import read_manifest, read_scores
from ttsbench.report import Grid, Section, render_terminal, score_table


def rendered(run_dir: Path) -> str:
    return render_terminal(score_table(run_dir, read_scores(run_dir), read_manifest(run_dir)))


def widest(text: str) -> int:
    return max(cell_len(line) for line in text.splitlines())


def bare(text: str) -> str:
    return re.sub(r"[\s│┃]", "", text)


def test_a_slow_run_fits_100_columns_and_no_figure_is_folded(tmp_path: Path) -> None:
    """Latencies of hours, in milliseconds. Red when a column too many makes lines wrap."""
    scored_run(tmp_path, timing=timing(rows=row_figures(9999, slowest_s=9999.0)))
    text = rendered(tmp_path)
    assert widest(text) <= 100
    assert re.search(r"│ first audio, ms +│ 5000\d+ │ +5000\d+ │ +\d{7} │ +\d{7} │ +\d{7} │", text)
    assert "│ substitutions/deletions/insertions │" in text


def test_a_tiny_run_fits_100_columns(tmp_path: Path) -> None:
    """Three rows: nearly all percentiles are withheld. Red when the words for it are wider than the figures."""
    scored_run(tmp_path, timing=timing(rows=row_figures(3), steady_rows=row_figures(1), steady_rows_missing=None))
    text = rendered(tmp_path)
    assert widest(text) <= 100
    assert re.search(r"withheld │\n│ \(n = 3\)", text)


def test_eight_protocols_fit(tmp_path: Path) -> None:
    """Red when ids of protocols stand at the head of columns."""
    names = [f"a-protocol-of-a-long-name-{number}" for number in range(7)]
    wer_run(tmp_path, {"first": {0: "one", 1: "one", 2: "one"}} | dict.fromkeys(names, HEARD))
    text = rendered(tmp_path)
    assert widest(text) <= 100
    assert "│ 0   │ 75.00 │  0.00 │  0.00 │" in text


def test_what_is_too_wide_is_folded_not_cut() -> None:
    """Red when rich shortens a cell with an ellipsis, takes [brackets] for markup, or counts Chinese as narrow."""
    wide = Section(
        title="long",
        ledger="甲" * 80,
        grids=(Grid(("row", "P1", "id"), (("1", "0.00 %", f"[red]{'名' * 90}[/red]"),)),),
        notes=("word" * 60,),
    )
    text = render_terminal([wide])
    assert widest(text) <= 100
    for whole in ("甲" * 80, f"[red]{'名' * 90}[/red]", "word" * 60):
        assert whole in bare(text)


def test_output_is_plain(tmp_path: Path) -> None:
    """Red when colours are forced into a pipe, or lines end in blanks."""
    scored_run(tmp_path)
    text = rendered(tmp_path)
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_surroundings_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when COLUMNS, FORCE_COLOR or the like reach into the text."""
    scored_run(tmp_path)
    before = rendered(tmp_path)
    for name, value in {"COLUMNS": "40", "FORCE_COLOR": "1", "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)
    assert rendered(tmp_path) == before
