"""A run folder's rows as Parquet and CSV: one flat table per kind of row, for tools that know nothing of ttsbench.

Parquet keeps types and nulls. CSV (RFC 4180, UTF-8) quotes every text and nothing else, so that an empty text ("") and
a null (nothing) stay apart. Every attempt of a row is exported, in file order.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ttsbench.records.base import Record
from ttsbench.records.columns import Cell, Column, columns_of
from ttsbench.records.frames import FramesRow
from ttsbench.records.layout import RunFolder
from ttsbench.records.pcm import PcmRow
from ttsbench.records.reader import read_jsonl
from ttsbench.records.request import RequestRecord
from ttsbench.records.speaker import SpeakerRow
from ttsbench.records.timing import TimingRow
from ttsbench.records.trace import TraceRecord
from ttsbench.records.wer import WerRecord
from ttsbench.records.writer import write_atomic

SCORERS: dict[str, type[Record]] = {"speaker": SpeakerRow, "frames": FramesRow, "pcm": PcmRow, "timing": TimingRow}


def export_run(run_dir: Path, out_dir: Path, scorers: Collection[str] | None = None) -> tuple[Path, ...]:
    """Write `<table>.parquet` and `<table>.csv` of the requests, the trace and the scorers' rows; returns the files.

    `scorers` chooses among the scorers' rows, by the stem of their file (`timing`, `wer-mini-en-1`); None takes all
    that are there. `out_dir` is made where it is missing; a file is replaced as a whole. Raises, before anything is
    written, FileNotFoundError for a scorer without rows, RecordError for rows that cannot be read and ImportError where
    pyarrow is missing; OSError on writing.
    """
    files: dict[str, bytes] = {}
    for path, model in _tables(RunFolder(run_dir), scorers):
        columns, records = columns_of(model), read_jsonl(path, model).records
        for suffix, encode in FORMATS.items():
            files[f"{path.stem}.{suffix}"] = encode(columns, records)
    out_dir.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_atomic(out_dir / name, data)
    return tuple(out_dir / name for name in files)


def _tables(folder: RunFolder, scorers: Collection[str] | None) -> list[tuple[Path, type[Record]]]:
    """Files of rows, each with its record type: those of the run that exist, then those of the scorers."""
    of_run: dict[Path, type[Record]] = {folder.requests: RequestRecord, folder.trace: TraceRecord}
    names = _scored(folder) if scorers is None else scorers
    return [
        *((path, model) for path, model in of_run.items() if path.is_file()),
        *((folder.score_rows(name), SCORERS.get(name, WerRecord)) for name in names),
    ]


def _scored(folder: RunFolder) -> list[str]:
    """Every scorer whose rows are there."""
    any_protocol = folder.wer_rows("*")
    wer = sorted(path.stem for path in any_protocol.parent.glob(any_protocol.name))
    return [*wer, *(name for name in SCORERS if folder.score_rows(name).is_file())]


def parquet_bytes(columns: Sequence[Column], records: Sequence[Record]) -> bytes:
    """A Parquet file. Raises ImportError, with what to install, where pyarrow is missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet export needs pyarrow: pip install pyarrow") from error
    types: dict[type, Any] = {
        bool: pyarrow.bool_(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        str: pyarrow.string(),
        datetime: pyarrow.timestamp("us", tz="UTC"),
    }
    schema = pyarrow.schema([(column.name, types[column.type]) for column in columns])
    cells = {column.name: [column.cell(record) for record in records] for column in columns}
    data = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(cells, schema=schema), data)
    return data.getvalue()


def csv_bytes(columns: Sequence[Column], records: Sequence[Record]) -> bytes:
    """A CSV file with a header. The csv module of Python 3.11 writes a null as an empty text, hence not by it."""
    lines = [_csv_line(column.name for column in columns)]
    lines += [_csv_line(column.cell(record) for column in columns) for record in records]
    return "".join(lines).encode()


FORMATS: dict[str, Callable[[Sequence[Column], Sequence[Record]], bytes]] = {
    "parquet": parquet_bytes,
    "csv": csv_bytes,
}
"""By the suffix of the file."""


def _csv_line(cells: Iterable[Cell]) -> str:
    return ",".join(_csv_cell(cell) for cell in cells) + "\r\n"


def _csv_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return '"' + cell.replace('"', '""') + '"'
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return cell.isoformat() if isinstance(cell, datetime) else repr(cell)
