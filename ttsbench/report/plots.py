"""Plots of a run from its per-row records: WER per row, durations, first audio. Each as PNG and as SVG.

The same records give the same bytes: the reader's own matplotlib settings are left out, and files carry no date.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ttsbench.core import InvalidInput, Problem
from ttsbench.records import RowStatus, RunFolder, ScoreSummary, read_requests, read_rows, read_wer, write_atomic
from ttsbench.records.timing import TimingRow
from ttsbench.report.stale import NO_ROWS, stale_protocols

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_IN = (8.0, 4.5)
PNG_DPI = 150
LOG_ABOVE_PCT = 100.0
"""Sentence WER is drawn on a logarithmic scale above this, so that one runaway does not flatten all other rows."""
Draw = Callable[["Axes"], None]


@dataclass(frozen=True)
class Plots:
    """What was drawn."""

    written: tuple[Path, ...]
    left_out: dict[str, str]
    """Plots that could not be drawn, with the reason."""


def write_plots(run_dir: Path, out_dir: Path, summary: ScoreSummary) -> Plots:
    """Draw what the run's records hold into `out_dir`, which is made where it is missing.

    Raises InvalidInput where matplotlib is missing, RecordError for records that cannot be read, OSError on writing.
    """
    with _own_settings():
        drawn = {name: make(run_dir, summary) for name, make in PLOTS.items()}
        figures = {name: _figure(draw) for name, draw in drawn.items() if not isinstance(draw, str)}
        files = {f"{name}.{kind}": _encode(plot, kind) for name, plot in figures.items() for kind in ("png", "svg")}
    out_dir.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_atomic(out_dir / name, data)
    return Plots(
        tuple(out_dir / name for name in files), {name: draw for name, draw in drawn.items() if isinstance(draw, str)}
    )


def _wer(run_dir: Path, summary: ScoreSummary) -> Draw | str:
    """Sentence WER of each row, the best first, one line per protocol."""
    stale = stale_protocols(run_dir, summary.wer)
    rows = {name: read_wer(run_dir, name).records for name in summary.wer if name not in stale}
    known = {name: sorted(row.wer_pct for row in of if row.wer_pct is not None) for name, of in rows.items()}
    if not any(known.values()):
        return "no row has a WER that belongs to the records as they lie"

    def draw(axes: Axes) -> None:
        for name, values in known.items():
            unscored = len(rows[name]) - len(values)
            label = f"{name}: {len(values)} rows" + (f", {unscored} unscored" if unscored else "")
            axes.plot(range(1, len(values) + 1), values, drawstyle="steps-mid", marker=".", label=label)
        if max(value for values in known.values() for value in values) > LOG_ABOVE_PCT:
            axes.set_yscale("symlog", linthresh=LOG_ABOVE_PCT)
        axes.set(xlabel="rows, from the best (charged rows: 100 %)", ylabel="sentence WER (%)", title="WER per row")
        axes.legend()

    return draw


def _durations(run_dir: Path, _: ScoreSummary) -> Draw | str:
    """Length of the speech against length of the text: runaways and rows cut short lie off the line."""
    points: dict[RowStatus, list[tuple[int, float]]] = {}
    for row in read_requests(run_dir).rows.values():
        if row.duration_s is not None:
            points.setdefault(row.status, []).append((len(row.text), row.duration_s))
    if not points:
        return "no row has audio"

    def draw(axes: Axes) -> None:
        for status in sorted(points):
            lengths, durations_s = zip(*points[status], strict=True)
            axes.scatter(lengths, durations_s, s=14, label=f"{status}: {len(lengths)} rows")
        axes.set(xlabel="text (characters)", ylabel="audio (s)", title="Duration against text", ylim=(0, None))
        axes.legend()

    return draw


def _first_audio(run_dir: Path, summary: ScoreSummary) -> Draw | str:
    """Share of the rows whose first audio had come by then; steps, so that nothing is smoothed."""
    if summary.timing is None:  # rows may lie there all the same, of an earlier scoring
        return "timing was not scored"
    if not RunFolder(run_dir).score_rows("timing").is_file():
        return NO_ROWS
    rows = read_rows(run_dir, "timing", TimingRow).records
    curves = {
        name: sorted(1000 * value for row in rows if (value := getattr(row, field)) is not None)
        for name, field in (("first audio", "first_audio_s"), ("first audible audio", "first_audible_s"))
    }
    if not any(curves.values()):
        return "no row has a first audio"

    def draw(axes: Axes) -> None:
        for name, values_ms in curves.items():
            if values_ms:
                axes.ecdf(values_ms, label=f"{name}: {len(values_ms)} of {len(rows)} rows")
        axes.set(
            xlabel="since the hand-over (ms)",
            ylabel="share of the rows that have one",
            title="First audio",
            xlim=(0, None),
        )
        axes.legend()

    return draw


PLOTS: dict[str, Callable[[Path, ScoreSummary], Draw | str]] = {
    "wer": _wer,
    "durations": _durations,
    "first_audio": _first_audio,
}
"""By the stem of its files: reads the records, and gives back what draws them, or why there is nothing to draw."""


@contextmanager
def _own_settings() -> Iterator[None]:
    try:
        import matplotlib
    except ImportError:
        raise InvalidInput(Problem("plots", "matplotlib", "not installed", "pip install matplotlib")) from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = "ttsbench"
        yield


def _figure(draw: Draw) -> Figure:
    """A figure of its own: pyplot, its global state and its windows stay out of it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_IN, layout="tight")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    draw(axes)
    return figure


def _encode(figure: Figure, kind: str) -> bytes:
    data = io.BytesIO()
    metadata = {"Software": None} if kind == "png" else {"Date": None}
    figure.savefig(data, format=kind, dpi=PNG_DPI, metadata=metadata)
    return data.getvalue()
