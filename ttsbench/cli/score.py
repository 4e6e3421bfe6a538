"""`ttsbench score`: judge a run folder from its records and WAVs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ttsbench.cli.failures import BROKEN, ROWS_FAILED, print_result, reported, say_to_user

if TYPE_CHECKING:
    from ttsbench.records import ScoreSummary, WerSummary
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
        from ttsbench.records import read_scores

        names = _scorers(only)
        source = _open(run)
        chosen = _protocols(source, protocol or [DEFAULT_PROTOCOL], asr) if WER in names else []
        _score(source, chosen, [name for name in names if name != WER])
        protocols = [one.id for one in chosen]
        summary = _asked_for(read_scores(run), protocols, names)
        _print(source, summary)
        _write(source, summary, markdown, plots, export)
        raise typer.Exit(_ledger(source, summary, protocols, names))


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


def _protocols(source: RunSource, ids: Sequence[str], asr: str | None) -> list[ScoringProtocol]:
    """Those of the run's language, each once, with the recogniser that was asked for."""
    from ttsbench.score.asr.choose import with_recogniser
    from ttsbench.score.protocol import find_protocol
    from ttsbench.score.run import language_of

    language = language_of(source.manifest.corpus.locale)
    found = [find_protocol(name, language) for name in dict.fromkeys(ids)]
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


def _write(
    source: RunSource, summary: ScoreSummary, markdown: Path | None, plots: Path | None, export: Path | None
) -> None:
    """The report in other forms; each is named when it is there."""
    run = source.folder.path
    if markdown is not None:
        from ttsbench.report import write_markdown

        write_markdown(markdown, run, summary, source.manifest)
        say_to_user(f"report: {markdown}")
    if plots is not None:
        from ttsbench.report.plots import write_plots

        drawn = write_plots(run, plots, summary)
        say_to_user(f"plots: {', '.join(str(path) for path in drawn.written) or 'none'}")
        for name, why in drawn.left_out.items():
            say_to_user(f"  no plot {name}: {why}")
    if export is not None:
        from ttsbench.records.export import export_run

        say_to_user(f"rows: {', '.join(str(path) for path in export_run(run, export))}")


def _ledger(source: RunSource, summary: ScoreSummary, protocol_ids: Sequence[str], names: Sequence[str]) -> int:
    """Name every row that is not in the figures as it should be; the exit code that follows."""
    code = 0
    for protocol_id in protocol_ids:
        code = max(code, _words_ledger(source, summary.wer[protocol_id]))
    for name in names:
        if name != WER:
            code = max(code, _section_ledger(source, summary, name))
    return code


def _words_ledger(source: RunSource, summary: WerSummary) -> int:
    from ttsbench.records import Outcome, read_wer

    for row in read_wer(source.folder.path, summary.protocol_id).records:
        if row.outcome is not Outcome.SCORED:
            name = f"row {row.row_index}" if row.utterance_id is None else row.utterance_id
            say_to_user(f"  {row.outcome.value} {name}: {row.cause}, {row.cause_detail}")
    if not summary.complete:
        say_to_user(f"incomplete: {'; '.join(summary.incomplete_because)}")
    if summary.rows_unscored:
        return BROKEN
    return ROWS_FAILED if summary.rows_charged else 0


def _section_ledger(source: RunSource, summary: ScoreSummary, name: str) -> int:
    """A row that a scorer broke on is unscored; one whose frames were traced as lost or repeated has failed."""
    coverage = getattr(summary, name).coverage
    if coverage.rows_unscored:
        causes = ", ".join(f"{count} {cause}" for cause, count in coverage.unscored_by_cause.items())
        say_to_user(f"incomplete: {name} has {coverage.rows_unscored} unscored rows: {causes}")
        return BROKEN
    if name == "frames":  # that an engine does not trace is no fault of its rows
        return _frames_ledger(source, summary)
    failed = coverage.failed_by_cause | ({"missing_record": coverage.rows_missing} if coverage.rows_missing else {})
    if failed:
        say_to_user(f"  {name}: not measured: {', '.join(f'{count} {cause}' for cause, count in failed.items())}")
    return ROWS_FAILED if failed else 0


def _frames_ledger(source: RunSource, summary: ScoreSummary) -> int:
    from ttsbench.records import read_rows
    from ttsbench.records.frames import FramesOutcome, FramesRow

    rows = read_rows(source.folder.path, "frames", FramesRow).records
    affected = [row for row in rows if row.outcome is FramesOutcome.AFFECTED]
    for row in affected:
        name = f"row {row.row_index}" if row.utterance_id is None else row.utterance_id
        say_to_user(f"  frames of {name}: {', '.join(dict.fromkeys(finding.fault for finding in row.findings))}")
    figures = None if summary.frames is None else summary.frames.figures
    stray = 0 if figures is None else figures.emissions_without_record
    if stray:
        say_to_user(f"  frames: {stray} emissions belong to no recorded row")
    return ROWS_FAILED if affected or stray else 0
