"""`ttsbench score`: judge a run folder from its records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ttsbench.cli.failures import BROKEN, ROWS_FAILED, print_result, reported, say_to_user

if TYPE_CHECKING:
    from ttsbench.records import WerStats, WerSummary

DEFAULT_PROTOCOL = "mini-en-1"

TABLE_COLUMNS = 100
"""Width where there is no terminal to ask: no cell of the table wraps, so the output can be searched line by line."""

PERCENTAGES = {
    "corpus WER": "corpus_pct",
    "sentence mean WER": "sentence_mean_pct",
    "sentence mean, capped at 100 %": "sentence_mean_capped_pct",
    "sentence median": "sentence_median_pct",
    "sentence p95": "sentence_p95_pct",
    "rows above 50 %": "share_above_50_pct",
}


def score(
    run: Annotated[Path, typer.Argument(help="Run folder written by synth.")],
    protocol: Annotated[str, typer.Option(help="Scoring protocol id.")] = DEFAULT_PROTOCOL,
) -> None:
    """Word error rate of a run: transcribe, compare, charge what failed."""
    with reported():
        from ttsbench.cli.progress import RowProgress
        from ttsbench.core import InvalidInput, Problem
        from ttsbench.records import read_manifest
        from ttsbench.score import score_run

        if not (run / "run.json").is_file():
            raise InvalidInput(Problem(str(run), "a run folder with run.json", "none", "make one with ttsbench synth"))
        with RowProgress("score", read_manifest(run).corpus.rows_expected) as bar:
            summary = score_run(run, protocol, lambda done, _: bar.update(done)).wer[protocol]
        _print_table(run, summary)
        _report(run, summary)


def _report(run: Path, summary: WerSummary) -> None:
    """Name every row that is not in the figures as it should be, and exit accordingly."""
    from ttsbench.records import Outcome, read_wer

    for row in read_wer(run, summary.protocol_id).records:
        if row.outcome is not Outcome.SCORED:
            name = f"row {row.row_index}" if row.utterance_id is None else row.utterance_id
            say_to_user(f"  {row.outcome.value} {name}: {row.cause}, {row.cause_detail}")
    if not summary.complete:
        say_to_user(f"incomplete: {'; '.join(summary.incomplete_because)}")
    if summary.rows_unscored:
        raise typer.Exit(BROKEN)
    if summary.rows_charged:
        raise typer.Exit(ROWS_FAILED)


def _print_table(run: Path, summary: WerSummary) -> None:
    """The figures, charged rows included and beside them those of the survivors alone."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    table.add_column("figure")
    table.add_column("all rows", justify="right")
    table.add_column("survivors only", justify="right")
    both = (summary.all_rows, summary.survivors)
    for label, name in PERCENTAGES.items():
        table.add_row(label, *(_percent(stats, name) for stats in both))
    table.add_row("rows", *("-" if stats is None else str(stats.rows) for stats in both))
    table.add_row("reference words", *("-" if stats is None else str(stats.reference_words) for stats in both))
    table.add_row("substitutions/deletions/insertions", *(_edits(stats) for stats in both))
    table.add_row("rows charged", str(summary.rows_charged), "-")
    table.add_row("rows unscored", str(summary.rows_unscored), "-")
    table.add_row("rows cut at their frame limit", str(summary.rows_cut_at_length), "-")
    console = Console(width=None if sys.stdout.isatty() else TABLE_COLUMNS)
    # Captured, for rich ends the process with its own exit code where the reader of stdout is gone.
    with console.capture() as rendered:
        console.print(table)
    print_result(f"{run}: word error rate, protocol {summary.protocol_id}")
    print_result(rendered.get().rstrip("\n"))


def _percent(stats: WerStats | None, name: str) -> str:
    value = None if stats is None else getattr(stats, name)
    return "-" if value is None else f"{value:.2f} %"


def _edits(stats: WerStats | None) -> str:
    return "-" if stats is None else f"{stats.substitutions}/{stats.deletions}/{stats.insertions}"
