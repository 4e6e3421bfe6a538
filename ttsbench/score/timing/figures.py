"""A figure that may be undefined: a number, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Figure = float | str
"""A number (or a bool), or a reason in words. The reason is stable, so that rows can be counted by it."""


def figure(value: float | None, missing: str | None) -> Figure:
    """A record's nullable field and its companion as one figure."""
    if value is not None:
        return value
    assert missing is not None  # a record's own validation: null exactly with a reason
    return missing


def derive(formula: Callable[..., float], *inputs: Figure) -> Figure:
    """`formula` of the inputs, or the first reason among them."""
    return next((reason for reason in inputs if isinstance(reason, str)), None) or formula(*inputs)


def ratio(numerator: Figure, denominator: Figure, of_zero: str) -> Figure:
    """Their quotient, or the first reason; `of_zero` is the reason for a denominator of 0."""
    return of_zero if denominator == 0 else derive(lambda above, below: above / below, numerator, denominator)


def as_fields(figures: Mapping[str, Figure]) -> dict[str, float | str | None]:
    """Record fields `x` and `x_missing` of each figure."""
    fields: dict[str, float | str | None] = {}
    for name, value in figures.items():
        known = not isinstance(value, str)
        fields |= {name: value if known else None, f"{name}_missing": None if known else value}
    return fields
