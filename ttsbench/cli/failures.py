"""How commands end: exit codes, and errors as a person reads them. Human text goes to stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ttsbench.core import InvalidInput, RowError
from ttsbench.records import RecordError

INVALID_INPUT = 2
ROWS_FAILED = 4
BROKEN = 5
INTERRUPTED = 130


def say_to_user(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def reported() -> Iterator[None]:
    """Turn the errors of a command into messages and exit codes. Anything unexpected keeps its traceback and is 5."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("ttsbench").setLevel(logging.INFO)
    try:
        yield
    except typer.Exit:
        raise
    except InvalidInput as error:
        count = len(error.problems)
        say_to_user(f"invalid input, nothing was done ({count} problem{'s' * (count > 1)}):")
        for problem in error.problems:
            say_to_user(f"  {problem}")
        raise typer.Exit(INVALID_INPUT) from None
    except RowError as error:
        say_to_user(f"{error.code}: {error}")
        raise typer.Exit(INVALID_INPUT) from None
    except RecordError as error:
        say_to_user(f"unreadable record: {error}")
        raise typer.Exit(INVALID_INPUT) from None
    except KeyboardInterrupt:
        say_to_user("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except Exception:
        logging.getLogger("ttsbench").exception("broken: the result is incomplete")
        raise typer.Exit(BROKEN) from None
