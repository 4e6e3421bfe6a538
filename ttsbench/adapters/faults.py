"""Checks that do not depend on each other run to the end, so that all their faults are told at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ttsbench.core import InvalidInput, Problem

T = TypeVar("T")


def attempt(problems: list[Problem], make: Callable[[], T]) -> T | None:
    """What `make` makes; or None, the faults of the InvalidInput that it raised being added to `problems`."""
    try:
        return make()
    except InvalidInput as error:
        problems += error.problems
        return None
