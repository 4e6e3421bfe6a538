"""Score a run folder: records and WAVs in, scores/wer-<protocol>.jsonl and scores.json out.

Every expected row ends up in the result. A run that is still going, or was interrupted, is scored as it stands and
labelled incomplete. Files appear whole, when all is done; an interrupted scoring leaves the earlier ones.
"""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ttsbench.core import InvalidInput, Problem
from ttsbench.records import (
    Outcome,
    RecordError,
    RequestLog,
    RowStatus,
    RunFolder,
    RunManifest,
    RunStatus,
    ScoreSummary,
    WerRecord,
    WerStats,
    WerSummary,
    read_manifest,
    read_requests,
    read_scores,
    sha256_of,
    unwritable,
    utc_now,
    write_atomic,
    write_record,
)
from ttsbench.score.asr import Transcriber
from ttsbench.score.protocol import ScoringProtocol, find_protocol
from ttsbench.score.row import judge_missing, judge_row
from ttsbench.score.wer import WordEdits, aggregate, split_words

Progress = Callable[[int, int], None]
"""Called with (rows done, rows expected) after each row, in row order."""


def score_run(run_dir: Path, protocol_id: str, progress: Progress | None = None) -> ScoreSummary:
    """Score `run_dir` under a protocol by id; the result has one entry per protocol the run was ever scored under.

    Raises InvalidInput for an unknown protocol, a recogniser that is not installed as pinned, a run without rows or in
    another language, or that cannot be written to; RecordError or FileNotFoundError for records that cannot be read.
    """
    return score_under(run_dir, find_protocol(protocol_id), progress)


def score_under(run_dir: Path, protocol: ScoringProtocol, progress: Progress | None = None) -> ScoreSummary:
    """As `score_run`, under a protocol given as an object."""
    manifest, log = read_manifest(run_dir), read_requests(run_dir)
    _check_fit(run_dir, manifest, log, protocol)
    folder = RunFolder(run_dir)
    _check_writable(folder, protocol)
    earlier = read_scores(run_dir).wer if folder.scores.exists() else {}
    expected = manifest.corpus.rows_expected
    rows: list[WerRecord] = []
    for row in _judge(run_dir, expected, log, protocol, protocol.asr.open()):
        rows.append(row)
        if progress is not None:
            progress(len(rows), expected)
    data = b"".join(row.model_dump_json().encode() + b"\n" for row in rows)
    summary = ScoreSummary(wer=earlier | {protocol.id: _summarise(rows, manifest, log, protocol, sha256_of(data))})
    folder.wer_rows(protocol.id).parent.mkdir(exist_ok=True)
    write_atomic(folder.wer_rows(protocol.id), data)
    write_record(folder.scores, summary)
    return summary


def _check_fit(run_dir: Path, manifest: RunManifest, log: RequestLog, protocol: ScoringProtocol) -> None:
    corpus = manifest.corpus
    if corpus.rows_expected == 0:
        raise InvalidInput(Problem(str(run_dir), "a run of at least one row", "a run of none"))
    if corpus.locale.split("-")[0] != protocol.language:
        expected = f"a {protocol.language} corpus, as protocol {protocol.id} judges"
        raise InvalidInput(Problem(str(run_dir), expected, f"locale {corpus.locale}"))
    if log.rows and max(log.rows) >= corpus.rows_expected:
        where = str(RunFolder(run_dir).requests)
        raise RecordError(where, f"row {max(log.rows)} is beyond the {corpus.rows_expected} rows of run.json")


def _check_writable(folder: RunFolder, protocol: ScoringProtocol) -> None:
    for target in (folder.scores, folder.wer_rows(protocol.id)):
        if why := unwritable(target.parent):
            raise InvalidInput(Problem(str(target.parent), "a folder that can be written to", why))


def _judge(
    run_dir: Path, expected: int, log: RequestLog, protocol: ScoringProtocol, transcriber: Transcriber
) -> Iterator[WerRecord]:
    """Every expected row's record, in row order, made by as many threads as the recogniser serves."""

    def judge(index: int) -> WerRecord:
        record = log.rows.get(index)
        if record is None:
            return judge_missing(index, protocol)
        return judge_row(run_dir, record, protocol, transcriber)

    pool = ThreadPoolExecutor(transcriber.workers, thread_name_prefix="score")
    try:
        yield from pool.map(judge, range(expected))
    finally:
        pool.shutdown(cancel_futures=True)


def _summarise(
    rows: Sequence[WerRecord], manifest: RunManifest, log: RequestLog, protocol: ScoringProtocol, rows_sha256: str
) -> WerSummary:
    by_outcome = {outcome: [row for row in rows if row.outcome is outcome] for outcome in Outcome}
    scored, charged, unscored = (by_outcome[o] for o in (Outcome.SCORED, Outcome.CHARGED, Outcome.UNSCORED))
    all_rows, survivors = _stats([*scored, *charged]), _stats(scored)
    reasons = _incomplete_because(manifest, rows)
    nothing = "no row could be scored"
    return WerSummary(
        protocol_id=protocol.id,
        protocol=protocol.pinned(),
        protocol_sha256=protocol.sha256(),
        software=_software() | protocol.asr.versions(),
        scored_at=utc_now(),
        requests_sha256=log.sha256,
        rows_file=f"scores/wer-{protocol.id}.jsonl",
        rows_sha256=rows_sha256,
        complete=not reasons,
        incomplete_because=reasons,
        rows_expected=len(rows),
        rows_scored=len(scored),
        rows_charged=len(charged),
        rows_unscored=len(unscored),
        charged_by_cause=_by_cause(charged),
        unscored_by_cause=_by_cause(unscored),
        rows_cut_at_length=sum(row.status is RowStatus.LENGTH for row in rows),
        rows_empty_transcript=sum(not split_words(row.hypothesis or "") for row in scored),
        all_rows=all_rows,
        all_rows_missing=None if all_rows else nothing,
        survivors=survivors,
        survivors_missing=None if survivors else nothing,
    )


def _incomplete_because(manifest: RunManifest, rows: Sequence[WerRecord]) -> tuple[str, ...]:
    reasons = []
    if manifest.status is not RunStatus.COMPLETE:
        killed = ", or was killed" if manifest.status is RunStatus.RUNNING else ""
        reasons.append(f"the run is {manifest.status}{killed}")
    if missing := sum(row.cause == "missing_record" for row in rows):
        reasons.append(f"{missing} rows have no record")
    if broken := sum(row.outcome is Outcome.UNSCORED for row in rows):
        reasons.append(f"the recogniser broke on {broken} rows")
    return tuple(reasons)


def _stats(rows: Sequence[WerRecord]) -> WerStats | None:
    return aggregate([_edits(row) for row in rows]) if rows else None


def _edits(row: WerRecord) -> WordEdits | None:
    counts = (row.substitutions, row.deletions, row.insertions, row.reference_words)
    if None in counts:
        return None
    return WordEdits(*(count for count in counts if count is not None))


def _by_cause(rows: Sequence[WerRecord]) -> dict[str, int]:
    return dict(sorted(Counter(row.cause for row in rows if row.cause is not None).items()))


def _software() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("jiwer", "soundfile", "soxr", "numpy")}
