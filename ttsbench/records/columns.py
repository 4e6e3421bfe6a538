"""A record type as the columns of a flat table, and a record as one row of it.

Columns come from the types alone, so two runs give the same table whatever their rows hold. The fields of a nested
record get dotted names (`voice.speaker`); what has no fixed fields (lists and maps) becomes JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ttsbench.records.base import Record

Cell = bool | int | float | str | datetime | None
SCALARS: tuple[type, ...] = (bool, int, float, str, datetime)


@dataclass(frozen=True)
class Column:
    """One column."""

    path: tuple[str, ...]
    """Fields that lead to the value."""
    type: type
    """bool, int, float, str or datetime."""
    encoded: bool
    """Whether the value is JSON text."""

    @property
    def name(self) -> str:
        """The fields, joined by dots."""
        return ".".join(self.path)

    def cell(self, record: Record) -> Cell:
        """The column's value in one record; None also where a record on the way is null or of another kind."""
        value: Any = record
        for name in self.path:
            value = getattr(value, name, None)
        if value is None or not self.encoded:
            return value if value is None or self.type is not str else str(value)
        return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def columns_of(model: type[Record]) -> tuple[Column, ...]:
    """Every column of a record type, in field order."""
    return tuple(_columns(model, ()))


def _columns(model: type[Record], path: tuple[str, ...]) -> list[Column]:
    found: list[Column] = []
    for name, field in model.model_fields.items():
        found += _column(field.annotation, (*path, name))
    return found


def _column(annotation: Any, path: tuple[str, ...]) -> list[Column]:
    kinds = _alternatives(annotation)
    if kinds and all(isinstance(kind, type) and issubclass(kind, Record) for kind in kinds):
        return _merged(column for kind in kinds for column in _columns(kind, path))
    for scalar in SCALARS:
        if kinds and all(isinstance(kind, type) and issubclass(kind, scalar) for kind in kinds):
            return [Column(path, scalar, encoded=False)]
    return [Column(path, str, encoded=True)]


def _merged(columns: Iterable[Column]) -> list[Column]:
    """Fields that several kinds of record share have one column."""
    merged: dict[tuple[str, ...], Column] = {}
    for column in columns:
        if merged.setdefault(column.path, column) != column:
            raise TypeError(f"{column.name} has two types in records that share a place")
    return list(merged.values())


def _alternatives(annotation: Any) -> list[Any]:
    """The types a field's value can have, null apart; a literal's are those of its values."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [kind for part in get_args(annotation) for kind in _alternatives(part)]
    if origin is Literal:
        return [type(value) for value in get_args(annotation)]
    return [] if annotation is NoneType else [annotation]


def _plain(value: Any) -> Any:
    """Records within a list or map as what JSON can hold."""
    if isinstance(value, Record):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value
