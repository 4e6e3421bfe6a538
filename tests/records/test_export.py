"""Export: every row of every kind, types and nulls kept, and text that comes back as it went."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.records.builders import manifest, request, request_without_audio
from tests.score.runs import FakeAsr, fake_protocol, spoken, write_run
from ttsbench.records import (
    JsonlWriter,
    NamedVoiceRecord,
    RecordError,
    ReferenceVoiceRecord,
    RequestRecord,
    RowStatus,
    RunFolder,
    read_requests,
)
from ttsbench.records.columns import columns_of
from ttsbench.records.export import SCORERS, csv_bytes, export_run, parquet_bytes
from ttsbench.records.frames import FramesRow
from ttsbench.records.schema import KINDS
from ttsbench.score.frames import judge_frames
from ttsbench.score.run import score_under
from ttsbench.score.source import RunSource
from ttsbench.score.timing import judge_timing

NASTY = 'He said "one, two";\r\nthen\tthree\n她说：“你好，世界” \\ \' é 🎉'
REFERENCE = ReferenceVoiceRecord(audio="a.wav", audio_sha256=None, audio_sha256_missing="unreadable", transcript="hi")


def rows_of_csv(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline=""), strict=True))


def parquet(records: Sequence[Any]) -> Any:
    return pyarrow.parquet.read_table(io.BytesIO(parquet_bytes(columns_of(type(records[0])), records)))


def test_text_comes_back_as_it_went() -> None:
    """Red when quotes, line breaks or Chinese get lost or split a row. Break: quote without doubling the quotes."""
    records = [request(0, NASTY), request(1, "plain")]
    columns = columns_of(RequestRecord)
    assert [row["text"] for row in rows_of_csv(csv_bytes(columns, records))] == [NASTY, "plain"]
    assert parquet(records).column("text").to_pylist() == [NASTY, "plain"]


def test_every_value_comes_back_from_both_formats() -> None:
    """Red when a column is shifted, a float is rounded or a name is not the field's."""
    record = request(0, NASTY, duration_s=24_000 / 24_000, first_audio_s=0.1 + 0.2, voice=REFERENCE)
    dumped = record.model_dump(mode="json")
    row = parquet([record]).to_pylist()[0]
    [line] = rows_of_csv(csv_bytes(columns_of(RequestRecord), [record]))
    assert {*row} == {*line}
    for name in row:
        expected: Any = dumped
        for part in name.split("."):
            expected = expected.get(part) if isinstance(expected, dict) else None
        assert row[name] == expected, name
        assert line[name] == ("" if expected is None else str(expected)), name


def test_a_null_is_no_empty_text_and_no_zero() -> None:
    """Red when what is missing turns into "" or 0 on its way. In CSV only the quotes tell a null from an empty text."""
    empty = request(0, voice=NamedVoiceRecord(speaker="ann", instruct=""))
    none = request_without_audio(1, RowStatus.FAILED)
    table = parquet([empty, none])
    assert table.column("voice.instruct").to_pylist() == ["", None]
    assert table.column("duration_s").to_pylist() == [1.0, None]
    assert table.column("samples").to_pylist() == [24_000, 0]
    columns = [column for column in columns_of(RequestRecord) if column.name in ("voice.instruct", "duration_s")]
    assert csv_bytes(columns, [empty, none]) == b'"voice.instruct","duration_s"\r\n"",1.0\r\n,\r\n'


def test_types_are_those_of_the_fields_though_every_value_is_null() -> None:
    """Red when types are guessed from the rows, so that two runs cannot be put together."""
    types = {field.name: str(field.type) for field in parquet([request_without_audio(0, RowStatus.INVALID)]).schema}
    expected = {
        "row_index": "int64",
        "schema_version": "int64",
        "status": "string",
        "duration_s": "double",
        "frames": "int64",
        "voice.audio": "string",
        "finish_reason": "string",
    }
    assert {name: types[name] for name in expected} == expected
    frames = {column.name: (column.type, column.encoded) for column in columns_of(FramesRow)}
    assert frames["counts.gap_events"] == (int, False)
    assert frames["findings"] == (str, True)


@pytest.mark.parametrize("kind", ["request", "trace", "wer", *SCORERS])
def test_every_field_of_every_kind_has_a_column(kind: str) -> None:
    """Red when a field added to a record is not exported. Companions (`..._missing`) go with their fields."""
    exported = {column.path[0] for column in columns_of(KINDS[kind])}
    assert exported == {*KINDS[kind].model_fields}


def test_lists_become_json(tmp_path: Path) -> None:
    """A run without a trace: no row audited, no findings. Red when a list becomes Python's idea of a text."""
    rows, _ = judge_frames(RunSource.open(write_run(tmp_path, [request(0)])))
    assert parquet(rows).column("findings").to_pylist() == ["[]"]
    assert parquet(rows).column("counts.attempts").to_pylist() == [None]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two rows, the second tried twice; WER, timing."""
    first = request_without_audio(1, RowStatus.FAILED)
    rows = [spoken(tmp_path, 0, "one two"), first, spoken(tmp_path, 1, "one two", attempt=2, request_id="again")]
    write_run(tmp_path, rows, manifest(rows=2))
    score_under(tmp_path, fake_protocol(FakeAsr({0: "one two", 1: ""})))
    with JsonlWriter(RunFolder(tmp_path).score_rows("timing")) as writer:
        writer.extend(judge_timing(RunSource.open(tmp_path))[0])
    return tmp_path


def test_every_kind_that_is_there_is_exported_with_every_attempt(run: Path) -> None:
    """Red when a kind is passed over, or the first attempt of a row that was tried again is dropped."""
    written = export_run(run, run / "out" / "deep")
    names = [f"{stem}.{suffix}" for stem in ("requests", "wer-fake-1", "timing") for suffix in ("parquet", "csv")]
    assert [path.name for path in written] == names
    table = pyarrow.parquet.read_table(run / "out" / "deep" / "requests.parquet")
    assert table.column("request_id").to_pylist() == [record.request_id for record in read_requests(run).attempts]
    heard = rows_of_csv((run / "out" / "deep" / "wer-fake-1.csv").read_bytes())
    assert [(row["transcript"], row["wer_pct"]) for row in heard] == [("one two", "0.0"), ("", "100.0")]


def test_only_the_scorers_asked_for_are_exported(run: Path) -> None:
    """Red when rows of an earlier scoring come along, the run's own go missing, or a scorer without rows is silent.

    Break: ignore `scorers`, drop the requests with them, or pass over files that are not there.
    """
    stems = {
        name: {path.stem for path in export_run(run, run / name, chosen)}
        for name, chosen in {"none": [], "times": ["timing"], "words": ["wer-fake-1"]}.items()
    }
    assert stems == {"none": {"requests"}, "times": {"requests", "timing"}, "words": {"requests", "wer-fake-1"}}
    with pytest.raises(FileNotFoundError, match="speaker"):
        export_run(run, run / "out", ["timing", "speaker"])
    assert not (run / "out").exists()


def test_rows_that_cannot_be_read_leave_nothing_half_exported(run: Path) -> None:
    """Red when files of the first kinds are written before the last kind is found to be broken."""
    RunFolder(run).score_rows("timing").write_text(json.dumps({"kind": "timing", "schema_version": 1}) + "\n")
    with pytest.raises(RecordError, match=r"timing\.jsonl, line 1"):
        export_run(run, run / "out")
    assert not (run / "out").exists()


def test_a_full_disk_leaves_the_earlier_file(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a file is written in place."""
    export_run(run, run / "out")
    before = {path.name: path.read_bytes() for path in (run / "out").iterdir()}

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=r"requests\.parquet"):
        export_run(run, run / "out")
    assert {path.name: path.read_bytes() for path in (run / "out").iterdir()} == before
