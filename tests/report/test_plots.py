"""Plots: what is drawn is what the records hold, and the same records give the same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.records.builders import request_without_audio
from tests.report.runs import HEARD, TEXT, timing, wer_run
from tests.score.runs import write_run
from ttsbench.records import (
    JsonlWriter,
    RowStatus,
    RunFolder,
    ScoreSummary,
    read_requests,
    read_rows,
    read_scores,
    write_record,
)
from ttsbench.records.timing import TimingRow
from ttsbench.report.plots import PLOTS, write_plots
from ttsbench.score.source import RunSource
from ttsbench.score.timing import judge_timing


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two protocols and the timing of three spoken rows and one that failed."""
    wer_run(tmp_path, {"strict": HEARD, "kind": {0: "", 1: TEXT, 2: TEXT}})
    rows, _ = judge_timing(RunSource.open(tmp_path))
    with JsonlWriter(RunFolder(tmp_path).score_rows("timing")) as writer:
        writer.extend(rows)
    write_record(RunFolder(tmp_path).scores, read_scores(tmp_path).revised(timing=timing()))
    return tmp_path


def drawn(name: str, run_dir: Path) -> Axes:
    draw = PLOTS[name](run_dir, read_scores(run_dir))
    assert not isinstance(draw, str), draw
    axes = Figure().add_subplot()
    draw(axes)
    return axes


def legend(axes: Axes) -> list[str]:
    return axes.get_legend_handles_labels()[1]


def test_every_plot_is_there_as_png_and_svg(run: Path) -> None:
    """Red when a file is empty, of another format, or left out without a word."""
    plots = write_plots(run, run / "plots", read_scores(run))
    names = [f"{stem}.{kind}" for stem in ("wer", "durations", "first_audio") for kind in ("png", "svg")]
    assert [path.name for path in plots.written] == names
    assert plots.left_out == {}
    for path in plots.written:
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml"), path
    assert sorted(path.name for path in (run / "plots").iterdir()) == sorted(names)


def test_the_same_records_give_the_same_bytes(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a date, a random id or the reader's own matplotlib settings get into a file."""
    import matplotlib

    first = [path.read_bytes() for path in write_plots(run, run / "a", read_scores(run)).written]
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 22.0)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12345")
    second = [path.read_bytes() for path in write_plots(run, run / "b", read_scores(run)).written]
    assert first == second
    assert matplotlib.rcParams["font.size"] == 22.0
    assert not any(b"dc:date" in data for data in first)


def test_wer_is_drawn_sorted_and_charged_rows_with_it(run: Path) -> None:
    """Red when the failed row (100 %) is left out, or rows stand in the order of the run."""
    axes = drawn("wer", run)
    lines = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in axes.get_lines()}
    assert lines == {"strict: 4 rows": [0, 25, 100, 100], "kind: 4 rows": [0, 0, 100, 100]}
    assert axes.get_ylabel() == "sentence WER (%)"
    assert axes.get_yscale() == "linear"


def test_a_runaway_leaves_the_other_rows_readable(tmp_path: Path) -> None:
    """Red when one row of 10,000 % squeezes all others onto the axis."""
    wer_run(tmp_path, {"strict": HEARD | {2: "word " * 400}})
    assert drawn("wer", tmp_path).get_yscale() == "symlog"


def test_a_row_that_was_not_scored_is_no_point_but_is_told(tmp_path: Path) -> None:
    """Red when an unscored row is drawn as 0 %, or passed over in silence."""
    wer_run(tmp_path, {"strict": HEARD | {1: RuntimeError("no")}})
    assert legend(drawn("wer", tmp_path)) == ["strict: 3 rows, 1 unscored"]


def test_durations_stand_over_the_length_of_the_text(run: Path) -> None:
    """Red when axes are exchanged, or the row without audio stands at 0 s."""
    axes = drawn("durations", run)
    expected = [(len(row.text), row.duration_s) for row in read_requests(run).rows.values() if row.duration_s]
    assert [tuple(point) for point in np.asarray(axes.collections[0].get_offsets()).tolist()] == expected
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("text (characters)", "audio (s)")
    assert legend(axes) == ["ok: 3 rows"]


def test_first_audio_is_in_milliseconds_and_says_how_many_rows_have_it(run: Path) -> None:
    """Red when seconds are drawn as milliseconds, or the failed row is not among the rows."""
    axes = drawn("first_audio", run)
    rows = read_rows(run, "timing", TimingRow).records
    known_ms = sorted({1000 * row.first_audio_s for row in rows if row.first_audio_s is not None})
    assert np.unique(axes.get_lines()[0].get_xdata()) == pytest.approx(known_ms)
    assert axes.get_xlabel() == "since the hand-over (ms)"
    assert legend(axes)[0] == "first audio: 3 of 4 rows"


def test_what_cannot_be_drawn_is_left_out_with_the_reason(tmp_path: Path) -> None:
    """Red when an empty plot passes for a result."""
    write_run(tmp_path, [request_without_audio(0, RowStatus.FAILED)])
    plots = write_plots(tmp_path, tmp_path / "plots", ScoreSummary(wer={}))
    assert plots.written == ()
    assert plots.left_out == {
        "wer": "no row has a WER that belongs to the records as they lie",
        "durations": "no row has audio",
        "first_audio": "timing was not scored",
    }


def test_times_that_the_scores_leave_out_are_not_drawn(run: Path) -> None:
    """Rows of an earlier scoring lie there. Red when `_first_audio` looks at the file of rows alone."""
    left_out = read_scores(run).revised(timing=None)
    assert write_plots(run, run / "plots", left_out).left_out == {"first_audio": "timing was not scored"}
    RunFolder(run).score_rows("timing").unlink()
    assert PLOTS["first_audio"](run, read_scores(run)) == "its per-row file is gone"


def test_wer_of_other_records_is_not_drawn(run: Path) -> None:
    """Red when rows of a run that has since gone on are drawn as its own."""
    requests = RunFolder(run).requests
    requests.write_bytes(b"".join(requests.read_bytes().splitlines(keepends=True)[:-1]))
    assert isinstance(PLOTS["wer"](run, read_scores(run)), str)
