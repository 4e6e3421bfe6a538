"""Progress of a long command: a live bar on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from ttsbench.cli.failures import say_to_user

PLAIN_EVERY_S = 5.0


class RowProgress:
    """Shows rows done out of `total` with a few words beside them, and an estimate of the time left.

    `done` rows were there before: they count, but tell nothing about speed.
    """

    def __init__(self, verb: str, total: int, done: int = 0) -> None:
        self.verb = verb
        self.total = total
        self._began_at, self._began_done = time.monotonic(), done
        self._shown_at = self._began_at
        self._bar: Bar | None = None
        if sys.stderr.isatty():
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task(verb, total=total, completed=done, note="")

    def update(self, done: int, note: str = "") -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=done, note=note)
        elif done == self.total or time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            say_to_user(f"{self.verb}: {done}/{self.total} rows{', ' + note if note else ''}{self._left(done)}")

    def _left(self, done: int) -> str:
        fresh = done - self._began_done
        if fresh <= 0 or done == self.total:
            return ""
        return f", ETA {(time.monotonic() - self._began_at) / fresh * (self.total - done):.0f} s"

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
