"""`ttsbench score`: judge a run folder from its records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ttsbench.cli.failures import BROKEN, ROWS_FAILED, reported, say_to_user

if TYPE_CHECKING:
    from ttsbench.records import WerSummary

DEFAULT_PROTOCOL = "mini-en-1"


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

        if not run.is_dir() or not (run / "run.json").is_file():
            raise InvalidInput(Problem(str(run), "a run folder with run.json", "none", "make one with ttsbench synth"))
        with RowProgress("score", read_manifest(run).corpus.rows_expected) as bar:
            summary = score_run(run, protocol, lambda done, _: bar.update(done)).wer[protocol]
        _print_table(run, summary)
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

    table = Table(title=f"{run}: word error rate, protocol {summary.protocol_id}", title_justify="left")
    for column, justify in (("figure", "left"), ("all rows", "right"), ("survivors only", "right")):
        table.add_column(column, justify=justify)
    everyone, survivors = summary.all_rows, summary.survivors
    figures = {
        "corpus WER": "corpus_pct",
        "sentence mean WER": "sentence_mean_pct",
        "sentence mean, capped at 100 %": "sentence_mean_capped_pct",
        "sentence median": "sentence_median_pct",
        "sentence p95": "sentence_p95_pct",
        "rows above 50 %": "share_above_50_pct",
    }
    for label, name in figures.items():
        table.add_row(label, *(_percent(stats, name) for stats in (everyone, survivors)))
    for label, name in {"rows": "rows", "reference words": "reference_words"}.items():
        table.add_row(label, *("-" if stats is None else str(getattr(stats, name)) for stats in (everyone, survivors)))
    edits = ("-" if s is None else f"{s.substitutions}/{s.deletions}/{s.insertions}" for s in (everyone, survivors))
    table.add_row("substitutions/deletions/insertions", *edits)
    table.add_row("rows charged", str(summary.rows_charged), "0")
    Console().print(table)
    for cause, rows in summary.charged_by_cause.items():
        say_to_user(f"  charged: {rows} x {cause}")


def _percent(stats: object, name: str) -> str:
    value = None if stats is None else getattr(stats, name)
    return "-" if value is None else f"{value:.2f} %"
