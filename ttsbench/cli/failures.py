"""How commands end and speak: exit codes, and errors as a person reads them. Human text goes to stderr."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import typer

from ttsbench.core import InvalidInput
from ttsbench.records import RecordError

INVALID_INPUT = 2
ROWS_FAILED = 4
BROKEN = 5
INTERRUPTED = 130

log = logging.getLogger("ttsbench")


def say_to_user(text: str) -> None:
    """A line for people, on stderr."""
    _write_line(text, sys.stderr)


def print_result(text: str) -> None:
    """A line of what the command was asked for, on stdout."""
    _write_line(text, sys.stdout)


def _write_line(text: str, stream: TextIO) -> None:
    """Write to a stream whose reader may be gone (`| head`): then the words are lost, and the work goes on."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        # The words still wait in the stream's buffer, and Python flushes it again at exit: let them go nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def reported() -> Iterator[None]:
    """Turn the errors of a command into messages and exit codes. Anything unexpected keeps its traceback and is 5."""
    try:
        with _log_to_user():
            yield
    except typer.Exit:
        raise
    except InvalidInput as error:
        count = len(error.problems)
        say_to_user(f"invalid input, nothing was done ({count} problem{'s' * (count > 1)}):")
        for problem in error.problems:
            say_to_user(f"  {problem}")
        raise typer.Exit(INVALID_INPUT) from None
    except RecordError as error:
        say_to_user(f"unreadable record: {error}")
        raise typer.Exit(INVALID_INPUT) from None
    except KeyboardInterrupt:
        say_to_user("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        # A full disk or a lost mount: the message says it all, a traceback would only hide it.
        say_to_user(f"broken, the result is incomplete: {error}")
        raise typer.Exit(BROKEN) from None
    except Exception:
        say_to_user(f"broken, the result is incomplete\n{traceback.format_exc()}")
        raise typer.Exit(BROKEN) from None


class _ToUser(logging.Handler):
    """Log lines as plain text, on whatever stderr is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        say_to_user(self.format(record))


@contextmanager
def _log_to_user() -> Iterator[None]:
    """Let people see what ttsbench logs while inside. Other libraries' loggers are left alone."""
    handler, level = _ToUser(), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
