"""Score a run folder: records and WAVs in, scores/wer-<protocol>.jsonl and scores.json out.

Every expected row ends up in the result. A run that is still going, or was interrupted, is scored as it stands and
labelled incomplete. Files appear whole, when all is done; an interrupted scoring leaves the earlier ones. Several
protocols are scored in one pass: those that pin the same recogniser and audio handling share what it heard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ttsbench.core import InvalidInput, Problem
from ttsbench.records import (
    RecordError,
    RunFolder,
    ScoreSummary,
    WerRecord,
    WerSummary,
    read_manifest,
    read_scores,
    sha256_of,
    unwritable,
    write_atomic,
    write_record,
)
from ttsbench.score.ear import Ear, ears_of
from ttsbench.score.hearing import Heard, Hearings, hear_rows
from ttsbench.score.protocol import ScoringProtocol, find_protocol
from ttsbench.score.row import judge_missing, judge_row, wants_hearing
from ttsbench.score.source import RunSource
from ttsbench.score.summary import summarise
from ttsbench.score.transcripts import TranscriptCache

Progress = Callable[[int, int], None]
"""Called with (rows done, rows to do) after each row; a row is done once per recogniser."""


@dataclass(frozen=True)
class WerScore:
    """One protocol's verdict on one run."""

    rows: tuple[WerRecord, ...]
    """Every expected row, in order."""
    summary: WerSummary

    @property
    def file(self) -> bytes:
        """The per-row file's bytes."""
        return _lines(self.rows)


def score_run(
    run_dir: Path, protocol_id: str, progress: Progress | None = None, cache: TranscriptCache | None = None
) -> ScoreSummary:
    """Score `run_dir` under a protocol by id; the result has one entry per protocol the run was ever scored under.

    Raises InvalidInput for an unknown protocol, a recogniser that is not installed as pinned, a run without rows or in
    another language, or that cannot be written to; RecordError or FileNotFoundError for records that cannot be read.
    """
    language = language_of(read_manifest(run_dir).corpus.locale)
    return score_under(run_dir, find_protocol(protocol_id, language), progress, cache)


def score_under(
    run_dir: Path, protocol: ScoringProtocol, progress: Progress | None = None, cache: TranscriptCache | None = None
) -> ScoreSummary:
    """As `score_run`, under a protocol given as an object."""
    source = RunSource.open(run_dir)
    check_wer(source, [protocol])
    return write_wer(source.folder, score_wer(source, [protocol], progress, cache))


def score_wer(
    source: RunSource,
    protocols: Sequence[ScoringProtocol],
    progress: Progress | None = None,
    cache: TranscriptCache | None = None,
) -> dict[str, WerScore]:
    """The verdict of each protocol, by its id. Reads only, but for the cache; raises as `score_run` does."""
    check_fit(source, protocols)
    ears = ears_of(protocols)
    sharing: dict[str, list[ScoringProtocol]] = {}
    for protocol in protocols:
        sharing.setdefault(ears[protocol.id].sha256, []).append(protocol)
    step = _counter(progress, len(sharing) * source.rows_expected)
    scores: dict[str, WerScore] = {}
    for group in sharing.values():
        ear = ears[group[0].id]
        wanted = {i for i, record in source.log.rows.items() if any(wants_hearing(record, p) for p in group)}
        hearings = hear_rows(source, ear, wanted, cache, step)
        scores |= {protocol.id: _judge(source, protocol, ear, hearings) for protocol in group}
    return {protocol.id: scores[protocol.id] for protocol in protocols}


def write_wer(folder: RunFolder, scores: Mapping[str, WerScore]) -> ScoreSummary:
    """Put the per-row files and then scores.json in place, with what stood there of other protocols and scorers."""
    wer = {protocol_id: score.summary for protocol_id, score in scores.items()}
    if folder.scores.exists():
        earlier = read_scores(folder.path)
        summary = earlier.revised(wer=earlier.wer | wer)
    else:
        summary = ScoreSummary(wer=wer)
    for protocol_id, score in scores.items():
        folder.wer_rows(protocol_id).parent.mkdir(exist_ok=True)
        write_atomic(folder.wer_rows(protocol_id), score.file)
    write_record(folder.scores, summary)
    return summary


def check_wer(source: RunSource, protocols: Sequence[ScoringProtocol]) -> None:
    """Whether the run fits the protocols, and results can be written and read. Raises InvalidInput or RecordError."""
    check_fit(source, protocols)
    folder = source.folder
    for parent in dict.fromkeys(path.parent for path in (folder.scores, *(folder.wer_rows(p.id) for p in protocols))):
        if why := unwritable(parent):
            raise InvalidInput(Problem(str(parent), "a folder that can be written to", why))
    if folder.scores.exists():
        read_scores(folder.path)


def check_fit(source: RunSource, protocols: Sequence[ScoringProtocol]) -> None:
    """Whether the run fits the protocols. Raises InvalidInput or RecordError."""
    where, corpus, log = str(source.folder.path), source.manifest.corpus, source.log
    if len({protocol.id for protocol in protocols}) < len(protocols):
        raise InvalidInput(Problem("protocol", "each protocol once", ", ".join(p.id for p in protocols)))
    if corpus.rows_expected == 0:
        raise InvalidInput(Problem(where, "a run of at least one row", "a run of none"))
    for protocol in protocols:
        if language_of(corpus.locale) != protocol.language:
            expected = f"a corpus of language {protocol.language}, as protocol {protocol.id} judges"
            hint = f"leave the words out (--only with the other scorers), or name a --protocol for {corpus.locale}"
            raise InvalidInput(Problem(where, expected, f"locale {corpus.locale}", hint))
    if log.rows and max(log.rows) >= corpus.rows_expected:
        at = str(source.folder.requests)
        raise RecordError(at, f"row {max(log.rows)} is beyond the {corpus.rows_expected} rows of run.json")


def language_of(locale: str) -> str:
    """The language of a corpus' locale: en for en-GB."""
    return locale.split("-")[0]


def _judge(source: RunSource, protocol: ScoringProtocol, ear: Ear, hearings: Hearings) -> WerScore:
    rows = tuple(
        judge_missing(index, protocol) if record is None else judge_row(record, hearings.rows.get(index), protocol)
        for index, record in source.rows()
    )
    cached = sum(isinstance(hearing, Heard) and hearing.from_cache for hearing in hearings.rows.values())
    sha256 = sha256_of(_lines(rows))
    return WerScore(rows, summarise(rows, source, protocol, ear, hearings.first_failure, cached, sha256))


def _lines(rows: Sequence[WerRecord]) -> bytes:
    return b"".join(row.model_dump_json().encode() + b"\n" for row in rows)


def _counter(progress: Progress | None, to_do: int) -> Callable[[], None]:
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, to_do)

    return step
