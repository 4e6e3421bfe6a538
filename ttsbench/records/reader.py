"""Reading what was written, strictly: a fault names the file and the line, and nothing is skipped.

The one tolerance is a torn last line (no newline), which a killed run leaves behind: it is not a record, and its size
is reported.

Version history (a version is per record kind; a new one reads all older ones, converting them here):
  run 1, request 1, trace 1, wer 1, scores 1    first published versions
  speaker 1, frames 1, pcm 1, timing 1          new kinds
  scores 2                                      sections of the new kinds beside that of wer
  request 2, trace 2                            frames_generated and frame_limit; chunk_target
  bench 1                                       new kind
Every version so far only added fields. Those that an older record cannot have (`ADDED`) are null, with the reason.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from ttsbench.records.base import Record, sha256_of
from ttsbench.records.bench import BenchRecord
from ttsbench.records.layout import RunFolder
from ttsbench.records.manifest import RunManifest
from ttsbench.records.request import RequestRecord
from ttsbench.records.scores import ScoreSummary
from ttsbench.records.trace import TraceRecord
from ttsbench.records.wer import WerRecord

R = TypeVar("R", bound=Record)

ADDED = {("request", 2): ("frame_limit", "frames_generated"), ("trace", 2): ("chunk_target",)}
"""Fields that a version of a kind added and that cannot be left out."""


class RecordError(Exception):
    """A record that cannot be read: where, and what is wrong with it."""

    def __init__(self, where: str, message: str) -> None:
        self.where = where
        super().__init__(f"{where}: {message}")


@dataclass(frozen=True)
class JsonLines(Generic[R]):
    """All records of a JSON-lines file; record i stands on line i + 1."""

    records: tuple[R, ...]
    torn_bytes: int
    """Size of an unfinished last line that was left out; 0 when there is none."""
    sha256: str
    """Hash of the whole lines."""


@dataclass(frozen=True)
class RequestLog:
    """requests.jsonl: the latest attempt of each row, by row index, and every attempt in file order."""

    rows: dict[int, RequestRecord]
    attempts: tuple[RequestRecord, ...]
    torn_bytes: int
    sha256: str


def read_manifest(run_dir: Path) -> RunManifest:
    """run.json of a run folder."""
    return _read_whole(RunFolder(run_dir).manifest, RunManifest)


def read_scores(run_dir: Path) -> ScoreSummary:
    """scores.json of a run folder."""
    return _read_whole(RunFolder(run_dir).scores, ScoreSummary)


def read_bench(path: Path) -> BenchRecord:
    """A file of `ttsbench bench`."""
    return _read_whole(path, BenchRecord)


def read_requests(run_dir: Path) -> RequestLog:
    """requests.jsonl of a run folder; a run killed before its first row has an empty log.

    Two records for one attempt of a row, or one row under two utterance ids, are errors: neither can be the right one.
    """
    path = RunFolder(run_dir).requests
    lines = read_jsonl(path, RequestRecord) if path.exists() else JsonLines[RequestRecord]((), 0, sha256_of(b""))
    line_of_attempt: dict[tuple[int, int], int] = {}
    rows: dict[int, RequestRecord] = {}
    row_of_id: dict[str, int] = {}
    for number, record in enumerate(lines.records, start=1):
        where = f"{path}, line {number}"
        first = line_of_attempt.setdefault((record.row_index, record.attempt), number)
        if first != number:
            what = f"row {record.row_index} ({record.utterance_id}), attempt {record.attempt}"
            raise RecordError(where, f"second record of {what}; the first is on line {first}")
        known = rows.get(record.row_index, record)
        if known.utterance_id != record.utterance_id:
            raise RecordError(where, f"row {record.row_index} was {known.utterance_id}, now {record.utterance_id}")
        if row_of_id.setdefault(record.utterance_id, record.row_index) != record.row_index:
            row = row_of_id[record.utterance_id]
            raise RecordError(where, f"utterance {record.utterance_id} is both row {row} and row {record.row_index}")
        if record.attempt >= known.attempt:
            rows[record.row_index] = record
    return RequestLog(dict(sorted(rows.items())), lines.records, lines.torn_bytes, lines.sha256)


def read_trace(run_dir: Path) -> JsonLines[TraceRecord]:
    """trace.jsonl of a run folder."""
    return read_jsonl(RunFolder(run_dir).trace, TraceRecord)


def read_wer(run_dir: Path, protocol_id: str) -> JsonLines[WerRecord]:
    """The per-row WER file of one protocol."""
    return read_jsonl(RunFolder(run_dir).wer_rows(protocol_id), WerRecord)


def read_rows(run_dir: Path, scorer: str, model: type[R]) -> JsonLines[R]:
    """The per-row file of a scorer."""
    return read_jsonl(RunFolder(run_dir).score_rows(scorer), model)


def read_jsonl(path: Path, model: type[R]) -> JsonLines[R]:
    """Every record of a JSON-lines file. Raises RecordError, or FileNotFoundError."""
    data = path.read_bytes()
    kept = data.rfind(b"\n") + 1
    lines = data[:kept].split(b"\n")[:-1]
    records = tuple(parse_record(line, model, f"{path}, line {n}") for n, line in enumerate(lines, start=1))
    return JsonLines(records, len(data) - kept, sha256_of(data[:kept]))


def parse_record(data: bytes, model: type[R], where: str) -> R:
    """One record from its JSON. A file from a newer ttsbench is told apart from a broken one."""
    try:
        head = json.loads(data)
    except ValueError as error:
        raise RecordError(where, f"not JSON: {error}") from None
    _check_kind(head, model, where)
    if head["schema_version"] < (newest := model.model_fields["schema_version"].default):
        data = json.dumps(_upgraded(head, newest)).encode()
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, e['loc'])) or 'record'}: {e['msg']}" for e in error.errors()]
        raise RecordError(where, "; ".join(faults)) from None


def _upgraded(head: dict[str, object], newest: int) -> dict[str, object]:
    """An older record's JSON as one of the newest version."""
    kind, version = str(head["kind"]), head["schema_version"]
    made = head | {"schema_version": newest}
    for (of, since), names in ADDED.items():
        if of == kind and isinstance(version, int) and version < since:
            for name in names:
                made |= {name: None, f"{name}_missing": f"{kind} version {version} does not hold it"}
    return made


def _check_kind(head: object, model: type[Record], where: str) -> None:
    expected = {name: model.model_fields[name].default for name in ("kind", "schema_version")}
    if not isinstance(head, dict) or "kind" not in head or "schema_version" not in head:
        raise RecordError(where, "expected an object with kind and schema_version")
    if head["kind"] != expected["kind"]:
        raise RecordError(where, f"expected a record of kind {expected['kind']}, got {head['kind']!r}")
    version, newest = head["schema_version"], expected["schema_version"]
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise RecordError(where, f"expected a schema_version from 1 on, got {version!r}")
    if version > newest:
        raise RecordError(where, f"{head['kind']} version {version} is newer than {newest}; upgrade ttsbench")


def _read_whole(path: Path, model: type[R]) -> R:
    return parse_record(path.read_bytes(), model, str(path))
