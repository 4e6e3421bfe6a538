"""Two kinds of bad input, told apart by type.

A structural fault (a bad list line, an unknown key, an unknown voice) is `InvalidInput`: raised before any work,
holding every fault found, exit code 2. A fault of one row's content (empty text, an unreadable reference) is
`RowError`: that row is charged, its neighbours finish, exit code 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One fault: where it is, what was expected, what came, and what to type next."""

    where: str
    expected: str
    got: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: expected {self.expected}, got {self.got}"
        return f"{text}; {self.hint}" if self.hint else text


class InvalidInput(Exception):
    """Input that cannot be used, found before any work started. Holds every fault, not the first one."""

    def __init__(self, problems: Problem | Sequence[Problem]) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        if not self.problems:
            raise ValueError("InvalidInput needs at least one problem")
        super().__init__("\n".join(str(p) for p in self.problems))


class RowError(Exception):
    """A fault of one request's content. `code` is a stable word for records, the message is for people."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)
