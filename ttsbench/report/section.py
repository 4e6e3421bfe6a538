"""A report as plain data: sections of small tables, which the terminal and Markdown both draw.

A cell is text, drawn as it stands; a line break in it parts a figure from its interval. What is missing is `n/a` with
the number of a note that says why, never 0; an empty cell is one where no figure could stand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ttsbench.records import Record

Show = Callable[[Any], str]
"""How a figure that is there is written."""
OLDER_FILE = "not in scores of this age"
MOST_ROWS = 20
"""Rows that a section names one by one; the records have all."""


@dataclass(frozen=True)
class Grid:
    """One table; every row has as many cells as the header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if uneven := [row for row in self.rows if len(row) != len(self.header)]:
            raise ValueError(f"expected {len(self.header)} cells in each row, got {uneven[0]}")


@dataclass(frozen=True)
class Section:
    """One scorer's part of the report."""

    title: str
    ledger: str
    """Every expected row under one heading, as a sum."""
    grids: tuple[Grid, ...]
    notes: tuple[str, ...]
    """Remarks, then the reasons of what is missing by their number."""


class Notes:
    """The notes of one section, collected while its cells are written."""

    def __init__(self) -> None:
        self._remarks: list[str] = []
        self._reasons: list[str] = []

    def remark(self, text: str) -> None:
        """Something the reader must know of the section as a whole."""
        self._remarks.append(text)

    def missing(self, reason: str | None) -> str:
        """The cell of a figure that is not there; equal reasons share a number. None: the record's version has none."""
        reason = reason or OLDER_FILE
        if reason not in self._reasons:
            self._reasons.append(reason)
        return f"n/a ({self._reasons.index(reason) + 1})"

    def cell(self, record: Record, name: str, show: Show = str) -> str:
        """The cell of a field: its figure, or why there is none."""
        value = getattr(record, name)
        return self.missing(getattr(record, f"{name}_missing", None)) if value is None else show(value)

    @property
    def lines(self) -> tuple[str, ...]:
        """Remarks in the order they were made, then reasons by number."""
        return (*self._remarks, *(f"({number}) {reason}" for number, reason in enumerate(self._reasons, start=1)))
