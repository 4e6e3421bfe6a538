"""A distribution in a few figures: extremes, mean, and percentiles that say how far they can be trusted.

The unit stands in the name of the field that holds the distribution. Nothing is rounded, and distributions are never
averaged: two sets of values make one only by pooling the values.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ttsbench.records.base import Count, Reason, Record


class Percentile(Record):
    """One percentile with its order-statistic interval."""

    value: float | None
    """The percentile, linear between the two nearest values."""
    value_missing: Reason | None = None
    """Why it is withheld: fewer than one value is expected beyond it (p99 under 100 values)."""
    low: float | None
    """Lower end of its 95 % interval: a value of the sample, by the binomial distribution of how many lie below."""
    low_missing: Reason | None = None
    """Why there is none, such as too few values, or values that are not independent."""
    high: float | None
    """Upper end of the same interval."""
    high_missing: Reason | None = None
    """Why there is none."""
    weak: bool
    """Whether fewer than five values are expected beyond it (p99 under 500 values)."""


class Distribution(Record):
    """At least one value."""

    values: Annotated[int, Field(gt=0)]
    """Values it is of; a row gives one, unless the field says otherwise."""
    rows_without_by_reason: dict[str, Count]
    """Measured rows that gave no value, by reason."""
    mean: float
    """Mean of the values."""
    smallest: float
    """Smallest value."""
    largest: float
    """Largest value."""
    p50: Percentile
    """Half of the values lie below."""
    p90: Percentile
    """90 % of the values lie below."""
    p95: Percentile
    """95 % of the values lie below."""
    p99: Percentile
    """99 % of the values lie below."""
