"""`ttsbench score`: judge a run folder from its records and WAVs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ttsbench.cli.failures import print_result, reported, say_to_user

if TYPE_CHECKING:
    from ttsbench.cli.targets import Targets
    from ttsbench.records import ScoreSummary
    from ttsbench.score.protocol import ScoringProtocol
    from ttsbench.score.source import RunSource

DEFAULT_PROTOCOL = "mini-en-1"
WER = "wer"


def score(
    run: Annotated[Path, typer.Argument(help="Run folder written by synth.")],
    protocol: Annotated[
        list[str] | None,
        typer.Option(help=f"Scoring protocol id, once or more often; {DEFAULT_PROTOCOL} if left out.", metavar="ID"),
    ] = None,
    asr: Annotated[
        str | None,
        typer.Option(help="Another recogniser under the protocols' rules, KIND:WHERE (docs/scoring.md)."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="One of wer, speaker, frames, pcm, timing, once or more often; all if left out."),
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="File for the report as Markdown.")] = None,
    plots: Annotated[Path | None, typer.Option(help="Folder for plots, PNG and SVG.")] = None,
    export: Annotated[Path | None, typer.Option(help="Folder for all rows as Parquet and CSV.")] = None,
) -> None:
    """Judge a run: its words, voices, frames, sound and times. What has not changed is not judged again."""
    with reported():
        from ttsbench.cli.ledger import Ledger
        from ttsbench.cli.targets import Targets
        from ttsbench.records import read_scores

        names, targets = _scorers(only), Targets(markdown, plots, export)
        source = _open(run)
        targets.check(run)
        chosen = _protocols(source, protocol, asr) if WER in names or protocol or asr else []
        chosen = chosen if WER in names else []
        _score(source, chosen, [name for name in names if name != WER])
        protocols = [one.id for one in chosen]
        summary = _asked_for(read_scores(run), protocols, names)
        _print(source, summary)
        _write(source, summary, targets, names)
        raise typer.Exit(Ledger(source, summary).report(protocols, [name for name in names if name != WER]))


def _scorers(only: list[str] | None) -> list[str]:
    """WER and the sections, or those of them that were asked for."""
    from ttsbench.core import InvalidInput, Problem
    from ttsbench.score.sections import SECTIONS

    every = [WER, *SECTIONS]
    if unknown := [name for name in only or [] if name not in every]:
        raise InvalidInput(Problem("--only", f"one of {', '.join(every)}", ", ".join(unknown)))
    return [name for name in every if not only or name in only]


def _open(run: Path) -> RunSource:
    from ttsbench.core import InvalidInput, Problem
    from ttsbench.score.source import RunSource

    if not (run / "run.json").is_file():
        raise InvalidInput(Problem(str(run), "a run folder with run.json", "none", "make one with ttsbench synth"))
    return RunSource.open(run)


def _protocols(source: RunSource, ids: Sequence[str] | None, asr: str | None) -> list[ScoringProtocol]:
    """Those of the run's language, each once, with the recogniser that was asked for."""
    from ttsbench.score.asr.choose import with_recogniser
    from ttsbench.score.protocol import find_protocol
    from ttsbench.score.run import language_of

    language = language_of(source.manifest.corpus.locale)
    found = [find_protocol(name, language) for name in dict.fromkeys(ids or [DEFAULT_PROTOCOL])]
    return found if asr is None else [with_recogniser(protocol, asr) for protocol in found]


def _score(source: RunSource, protocols: Sequence[ScoringProtocol], sections: Sequence[str]) -> None:
    """All is checked before anything is judged. Words come first: a recogniser that is missing then costs nothing."""
    from ttsbench.cli.progress import RowProgress
    from ttsbench.score.run import check_wer, score_wer, write_wer
    from ttsbench.score.sections import check_sections, score_section
    from ttsbench.score.transcripts import TranscriptCache

    check_wer(source, protocols)
    check_sections(source, sections)
    if protocols:
        with RowProgress(WER, rows := source.rows_expected) as bar:
            # a row is done once per recogniser
            scores = score_wer(
                source, protocols, lambda done, all_: bar.update(done * rows // all_), TranscriptCache.default()
            )
        write_wer(source.folder, scores)
    for name in sections:
        with RowProgress(name, source.rows_expected) as bar:
            score_section(source, name, lambda done, _, bar=bar: bar.update(done))  # type: ignore[misc]


def _asked_for(summary: ScoreSummary, protocol_ids: Sequence[str], names: Sequence[str]) -> ScoreSummary:
    """What was judged just now: anything else in scores.json may be of what lay here before."""
    from ttsbench.score.sections import SECTIONS

    wer = {name: summary.wer[name] for name in protocol_ids}
    return summary.revised(wer=wer, **{name: None for name in SECTIONS if name not in names})


def _print(source: RunSource, summary: ScoreSummary) -> None:
    from ttsbench.report import render_terminal, score_table

    print_result(f"{source.folder.path}:")
    print_result(render_terminal(score_table(source.folder.path, summary, source.manifest)))


def _write(source: RunSource, summary: ScoreSummary, targets: Targets, names: Sequence[str]) -> None:
    """The report in other forms; each is named when it is there."""
    run = source.folder.path
    if (file := targets.markdown) is not None:
        from ttsbench.report import write_markdown

        file.absolute().parent.mkdir(parents=True, exist_ok=True)
        write_markdown(file, run, summary, source.manifest)
        say_to_user(f"report: {file}")
    if (plots := targets.plots) is not None:
        from ttsbench.report.plots import write_plots

        drawn = write_plots(run, plots, summary)
        say_to_user(f"plots: {', '.join(str(path) for path in drawn.written) or 'none'}")
        for name, why in drawn.left_out.items():
            say_to_user(f"  no plot {name}: {why}")
    if (export := targets.export) is not None:
        from ttsbench.records.export import export_run
        from ttsbench.score.sections import SECTIONS

        scorers = [*(f"wer-{name}" for name in summary.wer), *(name for name in SECTIONS if name in names)]
        say_to_user(f"rows: {', '.join(str(path) for path in export_run(run, export, scorers))}")
