"""Which rows a scorer's figures rest on. It stands beside every figure, so that no row goes missing silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Self

from pydantic import model_validator

from ttsbench.records.base import Count, Record


class Heading(StrEnum):
    """Where a row stands."""

    MEASURED = "measured"
    FAILED = "failed"
    MISSING = "missing"
    UNSCORED = "unscored"


class Coverage(Record):
    """Every expected row under exactly one heading."""

    rows_expected: Count
    """Rows the run was to speak."""
    rows_measured: Count
    """Rows that the figures are of."""
    rows_failed: Count
    """Rows with a record and nothing to measure: failed, cancelled, empty, invalid, or with broken audio."""
    rows_missing: Count
    """Rows the run has no record of."""
    rows_unscored: Count
    """Rows that could be measured, but on which the scorer broke; one is enough to make the result incomplete."""
    failed_by_cause: dict[str, Count]
    """Failed rows by cause."""
    unscored_by_cause: dict[str, Count]
    """Unscored rows by cause."""

    @classmethod
    def of(cls, rows: Iterable[tuple[Heading, str | None]]) -> Self:
        """From each expected row's heading and the cause that put it there; a measured row has none."""
        counted = Counter(rows)

        def causes(of: Heading) -> dict[str, int]:
            return dict(sorted((str(cause), count) for (heading, cause), count in counted.items() if heading is of))

        rows_of = {heading: sum(causes(heading).values()) for heading in Heading}
        return cls(
            rows_expected=counted.total(),
            rows_measured=rows_of[Heading.MEASURED],
            rows_failed=rows_of[Heading.FAILED],
            rows_missing=rows_of[Heading.MISSING],
            rows_unscored=rows_of[Heading.UNSCORED],
            failed_by_cause=causes(Heading.FAILED),
            unscored_by_cause=causes(Heading.UNSCORED),
        )

    @property
    def complete(self) -> bool:
        """Whether every expected row was measured or is known to have failed."""
        return not (self.rows_missing or self.rows_unscored)

    @model_validator(mode="after")
    def _every_row_is_counted_once(self) -> Self:
        if self.rows_measured + self.rows_failed + self.rows_missing + self.rows_unscored != self.rows_expected:
            raise ValueError("rows measured, failed, missing and unscored do not add up to rows expected")
        if sum(self.failed_by_cause.values()) != self.rows_failed:
            raise ValueError("failed_by_cause does not add up to rows_failed")
        if sum(self.unscored_by_cause.values()) != self.rows_unscored:
            raise ValueError("unscored_by_cause does not add up to rows_unscored")
        return self
