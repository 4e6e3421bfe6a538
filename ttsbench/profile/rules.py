"""What a setting accepts, as data: one rule judges one YAML scalar and says in words what it wants.

YAML scalars arrive as Python's own types, and the types are exact: `true` is not 1, `"8"` is not 8, and null is a value
only where a rule names it. Zero is a number like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

Scalar = None | bool | int | float | str


@dataclass(frozen=True)
class Rule:
    """`accepts` judges a scalar, `expected` describes what passes, `words` are its valid names, if listed."""

    expected: str
    accepts: Callable[[Scalar], bool]
    convert: Callable[[Scalar], object] = lambda value: value
    words: tuple[str, ...] = ()


def flag() -> Rule:
    return Rule("true or false", lambda value: type(value) is bool)


def whole(at_least: int) -> Rule:
    return Rule(f"a whole number >= {at_least}", lambda value: type(value) is int and value >= at_least)


def number(above: float, at_most: float = math.inf) -> Rule:
    """A finite number in (above, at_most]; a whole number in the file becomes a float."""

    def accepts(value: Scalar) -> bool:
        return type(value) in (int, float) and math.isfinite(value) and above < value <= at_most  # type: ignore[arg-type, operator]

    limit = f" and <= {at_most:g}" if math.isfinite(at_most) else ""
    return Rule(f"a number > {above:g}{limit}", accepts, convert=lambda value: float(value))  # type: ignore[arg-type]


def one_of(*words: str, convert: Callable[[Scalar], object] = lambda value: value) -> Rule:
    listed = ", ".join(repr(word) for word in words)
    return Rule(listed if len(words) == 1 else f"one of {listed}", lambda value: value in words, convert, words)


def or_null(rule: Rule, meaning: str) -> Rule:
    """The same rule, and null, which means `meaning`."""
    return replace(
        rule,
        expected=f"{rule.expected}, or null ({meaning})",
        accepts=lambda value: value is None or rule.accepts(value),
        convert=lambda value: None if value is None else rule.convert(value),
    )
