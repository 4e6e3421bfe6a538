"""Every row that is not in the figures as it should be, by name, and the exit code that follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ttsbench.cli.failures import BROKEN, ROWS_FAILED, say_to_user
from ttsbench.records import Outcome, ScoreSummary, WerRecord, read_rows, read_wer
from ttsbench.records.frames import FramesOutcome, FramesRow
from ttsbench.records.schema import KINDS

if TYPE_CHECKING:
    from ttsbench.score.source import RunSource

FAILS_FRAMES = {"missing_record"}
"""Causes for which a row that was not audited has failed; an engine that does not trace is no fault of its rows."""


class Ledger:
    """One scoring's. A row is named once for each cause, by the first scorer that met it."""

    def __init__(self, source: RunSource, summary: ScoreSummary) -> None:
        self._source, self._summary = source, summary
        self._run = source.folder.path
        self._named: set[tuple[int, str]] = set()

    def report(self, protocol_ids: Sequence[str], sections: Sequence[str]) -> int:
        """Say all of it; the exit code."""
        codes = [self._words(protocol_id) for protocol_id in protocol_ids]
        codes += [self._frames() if name == "frames" else self._section(name) for name in sections]
        return max(codes, default=0)

    def _words(self, protocol_id: str) -> int:
        summary = self._summary.wer[protocol_id]
        for row in read_wer(self._run, protocol_id).records:
            if row.outcome is not Outcome.SCORED:
                self._name(row, row.outcome.value)
        if not summary.complete:
            say_to_user(f"incomplete: {'; '.join(summary.incomplete_because)}")
        if summary.rows_unscored:
            return BROKEN
        return ROWS_FAILED if summary.rows_charged else 0

    def _section(self, name: str) -> int:
        coverage = getattr(self._summary, name).coverage
        if coverage.rows_measured < coverage.rows_expected:
            for row in read_rows(self._run, name, KINDS[name]).records:
                self._name(row, f"{name}: no figure of")
        if coverage.rows_unscored:
            say_to_user(f"incomplete: {name} has {coverage.rows_unscored} unscored rows")
            return BROKEN
        return ROWS_FAILED if coverage.rows_failed or coverage.rows_missing else 0

    def _frames(self) -> int:
        """Frames traced as lost, repeated or out of order are hard evidence; that nothing was traced is none."""
        assert self._summary.frames is not None
        coverage, figures = self._summary.frames.coverage, self._summary.frames.figures
        rows = read_rows(self._run, "frames", FramesRow).records
        fails = FAILS_FRAMES | ({"frames_not_reported"} if self._source.manifest.engine.reports_frames else set())
        failed = [row for row in rows if row.outcome is FramesOutcome.AFFECTED or row.cause in fails]
        for row in failed:
            faults = ", ".join(dict.fromkeys(finding.fault for finding in row.findings))
            self._name(row, "frames of", faults)
        if stray := 0 if figures is None else figures.emissions_without_record:
            say_to_user(f"  frames: {stray} emissions belong to no recorded row")
        if coverage.rows_unscored:
            say_to_user(f"incomplete: frames has {coverage.rows_unscored} unscored rows")
            return BROKEN
        return ROWS_FAILED if failed or stray else 0

    def _name(self, row: WerRecord | Any, words: str, faults: str = "") -> None:
        """A row with a cause, or with the faults found in it."""
        cause = faults or row.cause
        if cause is None or (row.row_index, cause) in self._named:
            return
        self._named.add((row.row_index, cause))
        who = f"row {row.row_index}" if row.utterance_id is None else row.utterance_id
        detail = None if faults else getattr(row, "cause_detail", None)
        say_to_user(f"  {words} {who}: {cause}{f', {detail}' if detail else ''}")
