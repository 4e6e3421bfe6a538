"""Reading: strict, with the line in the error; a torn last line is reported and not a record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.records.builders import manifest, request, request_without_audio
from ttsbench.records import (
    RecordError,
    RequestRecord,
    RowStatus,
    RunFolder,
    read_manifest,
    read_requests,
    sha256_of,
    write_record,
)


def write_lines(folder: Path, *records: RequestRecord, tail: bytes = b"") -> Path:
    """requests.jsonl holding these records and a tail."""
    path = RunFolder(folder).requests
    path.write_bytes(b"".join(record.model_dump_json().encode() + b"\n" for record in records) + tail)
    return path


def test_the_latest_attempt_of_a_row_counts(tmp_path: Path) -> None:
    """Red when the first record, or the last line, wins instead of the highest attempt."""
    failed = request_without_audio(1, RowStatus.FAILED, attempt=1)
    write_lines(tmp_path, request(1, attempt=2), request(0), failed)
    log = read_requests(tmp_path)
    assert [(row.row_index, row.attempt, row.status) for row in log.rows.values()] == [(0, 1, "ok"), (1, 2, "ok")]
    assert len(log.attempts) == 3


def test_a_torn_last_line_is_reported_and_not_a_record(tmp_path: Path) -> None:
    """Red when the torn line is parsed, or passed over in silence; the hash is that of the whole lines."""
    path = write_lines(tmp_path, request(0), tail=b'{"schema')
    log = read_requests(tmp_path)
    assert (len(log.rows), log.torn_bytes) == (1, 8)
    assert log.sha256 == sha256_of(path.read_bytes()[:-8])


def test_a_run_killed_before_its_first_row_has_an_empty_log(tmp_path: Path) -> None:
    """Red when a missing requests.jsonl is an error: the file appears with the first record."""
    log = read_requests(tmp_path)
    assert (log.rows, log.torn_bytes) == ({}, 0)


def test_two_records_for_one_attempt_are_an_error(tmp_path: Path) -> None:
    """Red when one of them silently wins."""
    write_lines(tmp_path, request(0), request(1), request(0))
    with pytest.raises(RecordError, match=r"line 3: second record of row 0 \(u0\), attempt 1; the first is on line 1"):
        read_requests(tmp_path)


def test_a_row_keeps_its_utterance_and_an_utterance_its_row(tmp_path: Path) -> None:
    """Red when rows of two different lists can end up in one log."""
    write_lines(tmp_path, request(0), request(0, attempt=2, utterance_id="other"))
    with pytest.raises(RecordError, match="line 2: row 0 was u0, now other"):
        read_requests(tmp_path)
    write_lines(tmp_path, request(0), request(1, utterance_id="u0"))
    with pytest.raises(RecordError, match="line 2: utterance u0 is both row 0 and row 1"):
        read_requests(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"not json\n", "line 2: not JSON"),
        (b"\n", "line 2: not JSON"),
        (b"[]\n", "line 2: expected an object with kind and schema_version"),
        (b'{"kind":"trace","schema_version":1}\n', "line 2: expected a record of kind request, got 'trace'"),
        (b'{"kind":"request","schema_version":3}\n', "line 2: request version 3 is newer than 2; upgrade ttsbench"),
        (b'{"kind":"request","schema_version":1}\n', "line 2: row_index: Field required"),
    ],
)
def test_a_broken_line_is_an_error_with_its_number(tmp_path: Path, line: bytes, message: str) -> None:
    """Red when a whole line that cannot be read is skipped."""
    write_lines(tmp_path, request(0), tail=line)
    with pytest.raises(RecordError, match=message):
        read_requests(tmp_path)


def test_an_older_record_does_not_know_what_a_newer_one_says(tmp_path: Path) -> None:
    """Red when a count that version 1 never took reads as 0, as the frames emitted, or as an error."""
    old = json.loads(request(0).model_dump_json()) | {"schema_version": 1}
    for name in ("frame_limit", "frames_generated"):
        del old[name], old[f"{name}_missing"]
    write_lines(tmp_path, tail=json.dumps(old).encode() + b"\n")
    (record,) = read_requests(tmp_path).rows.values()
    assert (record.frames, record.frames_generated, record.frame_limit) == (13, None, None)
    assert record.frames_generated_missing == "request version 1 does not hold it"


def test_the_manifest_reads_back_and_its_faults_name_the_field(tmp_path: Path) -> None:
    """Red when a manifest is read without its validation."""
    path = RunFolder(tmp_path).manifest
    write_record(path, manifest())
    assert read_manifest(tmp_path) == manifest()
    broken = json.loads(path.read_bytes())
    broken["settings"]["seed"] = -1
    path.write_text(json.dumps(broken))
    with pytest.raises(RecordError, match=r"run\.json: settings\.seed"):
        read_manifest(tmp_path)
