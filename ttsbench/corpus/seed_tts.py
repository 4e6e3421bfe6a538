"""Reads the bytes of a Seed-TTS list: every line is a row or an error, and all errors come at once.

Only structure is judged here (encoding, field count, ids, columns in the right place). An empty text or a missing clip
is one row's content and none of this module's business.
"""

from __future__ import annotations

from pathlib import Path

from ttsbench.core import InvalidInput, Problem
from ttsbench.corpus.ids import MAX_ID_BYTES, repeats, unsafe_id
from ttsbench.corpus.layout import AUDIO_COLUMNS, LAYOUTS, SEPARATOR, THREE_FIELDS, Column, Layout, layout_of, order
from ttsbench.corpus.types import CorpusRow

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3")
_BOM = b"\xef\xbb\xbf"


class _Faults:
    """Problems of one list, collected in any order and raised in line order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: list[tuple[int, Problem]] = []

    def add(self, line: int, expected: str, got: str, hint: str) -> None:
        self._found.append((line, Problem(f"{self._path}:{line}", expected, got, hint)))

    def raise_if_any(self) -> None:
        if self._found:
            raise InvalidInput([problem for _, problem in sorted(self._found, key=lambda found: found[0])])


def parse_list(data: bytes, path: Path) -> tuple[Layout, tuple[CorpusRow, ...]]:
    """Rows of the list `data` that was read from `path`, and the layout that all of them have.

    A byte-order mark and CRLF line ends are accepted. Relative clip paths mean the folder of `path`.
    Raises InvalidInput with every bad line, each located as `path:line`.
    """
    faults = _Faults(path)
    lines = _split(data, faults)
    layout = layout_of([_count(line) for _, line in lines])
    if layout is None:
        _no_layout(lines, faults)
        faults.raise_if_any()
        raise InvalidInput(Problem(str(path), "at least one row", "an empty file"))
    rows = []
    for number, line in lines:
        fields = line.split(SEPARATOR)
        if len(fields) == len(layout):
            rows.append(_row(_cells(fields, layout), number, path))
            _check_columns(fields, number, layout, faults)
        else:
            _wrong_count(len(fields), number, layout, faults)
    _check_ids(rows, faults)
    faults.raise_if_any()
    return layout, tuple(rows)


def _split(data: bytes, faults: _Faults) -> list[tuple[int, str]]:
    """Numbered lines without their LF; a blank or undecodable line is a fault."""
    lines = []
    # Not str.splitlines: that also cuts at U+2028, form feeds and other characters that a text may hold.
    raw_lines = data.removeprefix(_BOM).split(b"\n")
    if raw_lines[-1] == b"":
        raw_lines.pop()
    for number, raw in enumerate(raw_lines, start=1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            got = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1} of the line"
            faults.add(number, "UTF-8 text", got, "save the list as UTF-8")
            continue
        if line.strip():
            lines.append((number, line))
        else:
            faults.add(number, "a row", "a blank line", "delete the line")
    return lines


def _count(line: str) -> int:
    return line.count(SEPARATOR) + 1


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"


def _no_layout(lines: list[tuple[int, str]], faults: _Faults) -> None:
    known = " or ".join(order(layout) for layout in LAYOUTS.values())
    for number, line in lines:
        faults.add(number, known, _fields(_count(line)), f"fields are separated by '{SEPARATOR}'")


def _wrong_count(count: int, number: int, layout: Layout, faults: _Faults) -> None:
    expected = f"{len(layout)} fields ({order(layout)}) like the other lines of this file"
    hint = f"a text must not contain '{SEPARATOR}'" if count > len(layout) else "add what is missing"
    faults.add(number, expected, _fields(count), hint)


def _cells(fields: list[str], layout: Layout) -> dict[Column, str]:
    """Fields by meaning. White space around a field is no part of it (nor is the CR of CRLF); an id keeps its own."""
    cells = {column: field.strip() for column, field in zip(layout, fields, strict=True)}
    utterance_id = fields[layout.index(Column.ID)]
    cells[Column.ID] = utterance_id.removesuffix(".wav") if layout == THREE_FIELDS else utterance_id
    return cells


def _row(cells: dict[Column, str], number: int, path: Path) -> CorpusRow:
    def clip(column: Column) -> Path | None:
        return path.parent / cells[column] if cells.get(column) else None

    return CorpusRow(
        utterance_id=cells[Column.ID],
        text=cells[Column.TEXT],
        prompt_text=cells.get(Column.PROMPT_TEXT) or None,
        prompt_audio=clip(Column.PROMPT_AUDIO),
        ground_truth_audio=clip(Column.GROUND_TRUTH_AUDIO),
        line=number,
    )


def _check_columns(fields: list[str], number: int, layout: Layout, faults: _Faults) -> None:
    """An audio column must name audio. Catches columns in another order, and other tools' meaning of field five."""
    for position, (column, field) in enumerate(zip(layout, fields, strict=True), start=1):
        name = field.strip()
        # An empty field means "no clip"; whether the row can do without is the row's affair.
        if column in AUDIO_COLUMNS and name and ("\0" in name or not name.lower().endswith(AUDIO_SUFFIXES)):
            expected = f"an audio file in field {position} ({order(layout)})"
            faults.add(number, expected, repr(name), f"audio files end in {', '.join(AUDIO_SUFFIXES)}")


def _check_ids(rows: list[CorpusRow], faults: _Faults) -> None:
    for row in rows:
        reason = unsafe_id(row.utterance_id)
        if reason is not None:
            expected = f"an id that is safe as a file name, at most {MAX_ID_BYTES} bytes"
            faults.add(row.line, expected, reason, "rename the utterance")
    for line, utterance_id, earlier_line, earlier in repeats((row.line, row.utterance_id) for row in rows):
        same = utterance_id == earlier
        expected = "ids that are unique" if same else "ids that differ by more than case or Unicode form"
        got = f"{utterance_id!r} here and {earlier!r} on line {earlier_line}"
        faults.add(line, expected, got, "rename one of them")
