"""The WER section of scores.json: every expected row under one heading, and the figures read off the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ttsbench.records import (
    Coverage,
    Heading,
    Outcome,
    ReferenceVoiceRecord,
    RowStatus,
    RunStatus,
    WerRecord,
    WerStats,
    WerSummary,
    utc_now,
)
from ttsbench.records.wer import AsrFailure, PromptLeak, WerHeadline
from ttsbench.score.asr.weights import package_versions
from ttsbench.score.ear import Ear
from ttsbench.score.leaks import CHARACTERS, WORDS, Saying, leaks
from ttsbench.score.protocol import ScoringProtocol
from ttsbench.score.source import RunSource
from ttsbench.score.wer import WordEdits, aggregate, split_words, trailing_deletions

MISSING_RECORD = "missing_record"
NOTHING = "no row could be scored"


def summarise(
    rows: Sequence[WerRecord],
    source: RunSource,
    protocol: ScoringProtocol,
    ear: Ear,
    first_failure: AsrFailure | None,
    rows_from_cache: int,
    rows_sha256: str,
) -> WerSummary:
    """The verdict of one protocol on one run, `rows` being all expected rows in order."""
    scored, charged, unscored = (_of(rows, o) for o in (Outcome.SCORED, Outcome.CHARGED, Outcome.UNSCORED))
    all_rows, survivors = stats_of([*scored, *charged]), stats_of(scored)
    reasons = _incomplete_because(source, rows)
    trailing = [cut for row in scored if (cut := trailing_deletions(row.reference or "", row.hypothesis or ""))]
    return WerSummary(
        protocol_id=protocol.id,
        protocol=protocol.pinned(),
        protocol_sha256=protocol.sha256(),
        software=package_versions("jiwer", "soundfile", "soxr", "numpy") | protocol.asr.versions(),
        scored_at=utc_now(),
        recogniser=dict(ear.identity),
        recogniser_sha256=ear.sha256,
        requests_sha256=source.log.sha256,
        rows_file=source.folder.wer_rows(protocol.id).relative_to(source.folder.path).as_posix(),
        rows_sha256=rows_sha256,
        complete=not reasons,
        incomplete_because=reasons,
        rows_expected=len(rows),
        rows_scored=len(scored),
        rows_charged=len(charged),
        rows_unscored=len(unscored),
        charged_by_cause=_by_cause(charged),
        unscored_by_cause=_by_cause(unscored),
        coverage=Coverage.of((_heading(row), row.cause) for row in rows),
        first_asr_failure=first_failure,
        rows_from_cache=rows_from_cache,
        rows_cut_at_length=sum(row.status is RowStatus.LENGTH for row in rows),
        rows_empty_transcript=sum(not split_words(row.hypothesis or "") for row in scored),
        rows_trailing_deletions=len(trailing),
        words_trailing_deletions=sum(trailing),
        prompt_leaks=_prompt_leaks(rows, source, protocol),
        headline=_headline(rows, protocol),
        all_rows=all_rows,
        all_rows_missing=None if all_rows else NOTHING,
        survivors=survivors,
        survivors_missing=None if survivors else NOTHING,
    )


def stats_of(rows: Sequence[WerRecord]) -> WerStats | None:
    """Aggregates of rows that have a figure; None for no rows."""
    return aggregate([_edits(row) for row in rows]) if rows else None


def _headline(rows: Sequence[WerRecord], protocol: ScoringProtocol) -> WerHeadline:
    """The aggregate the protocol is named for, over the rows it counts."""
    counted = [row for row in rows if protocol.failures.counts(row)]
    stats, figure = stats_of(counted), protocol.headline.value
    pct = None if stats is None else getattr(stats, figure)
    why = NOTHING if stats is None else getattr(stats, f"{figure}_missing", None)
    interval = None if stats is None else getattr(stats, figure.replace("_pct", "_interval"))
    return WerHeadline(figure=figure, rows=len(counted), pct=pct, pct_missing=why, interval=interval)


def _heading(row: WerRecord) -> Heading:
    if row.outcome is Outcome.CHARGED:
        return Heading.MISSING if row.cause == MISSING_RECORD else Heading.FAILED
    return Heading.MEASURED if row.outcome is Outcome.SCORED else Heading.UNSCORED


def _prompt_leaks(
    rows: Sequence[WerRecord], source: RunSource, protocol: ScoringProtocol
) -> tuple[PromptLeak, ...] | None:
    """Rows that begin with words of a prompt; None for a run whose prompts have no known words."""
    prompts = {
        index: tuple(split_words(protocol.normalise(record.voice.transcript)))
        for index, record in source.log.rows.items()
        if isinstance(record.voice, ReferenceVoiceRecord) and record.voice.transcript
    }
    if not prompts:
        return None
    sayings = [
        Saying(
            row_index=row.row_index,
            target=tuple(split_words(row.reference or "")),
            heard=tuple(split_words(row.hypothesis or "")),
            prompt=prompts.get(row.row_index, ()),
        )
        for row in rows
    ]
    return leaks(sayings, CHARACTERS if protocol.language == "zh" else WORDS)


def _incomplete_because(source: RunSource, rows: Sequence[WerRecord]) -> tuple[str, ...]:
    reasons = []
    status = source.manifest.status
    if status is not RunStatus.COMPLETE:
        killed = ", or was killed" if status is RunStatus.RUNNING else ""
        reasons.append(f"the run is {status}{killed}")
    if missing := sum(row.cause == MISSING_RECORD for row in rows):
        reasons.append(f"{missing} rows have no record")
    if broken := len(_of(rows, Outcome.UNSCORED)):
        reasons.append(f"the recogniser broke on {broken} rows")
    return tuple(reasons)


def _of(rows: Sequence[WerRecord], outcome: Outcome) -> list[WerRecord]:
    return [row for row in rows if row.outcome is outcome]


def _edits(row: WerRecord) -> WordEdits | None:
    counts = (row.substitutions, row.deletions, row.insertions, row.reference_words)
    if None in counts:
        return None
    return WordEdits(*(count for count in counts if count is not None))


def _by_cause(rows: Sequence[WerRecord]) -> dict[str, int]:
    return dict(sorted(Counter(row.cause for row in rows if row.cause is not None).items()))
