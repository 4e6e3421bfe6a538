"""How commands end, whatever happened inside."""

from __future__ import annotations

import logging
from contextlib import redirect_stderr

import pytest
import typer

from tests.cli.harness import pipe_without_reader
from ttsbench.cli.failures import reported, say_to_user
from ttsbench.core import InvalidInput, Problem
from ttsbench.records import RecordError


def ended_with(error: BaseException) -> int:
    with pytest.raises(typer.Exit) as caught, reported():
        raise error
    return caught.value.exit_code


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InvalidInput([Problem("a", "b", "c"), Problem("d", "e", "f", "g")]), 2, "d: expected e, got f; g"),
        (RecordError("run.json", "not JSON"), 2, "unreadable record: run.json: not JSON"),
        (OSError(28, "No space left on device"), 5, "No space left on device"),
        (ZeroDivisionError("a bug"), 5, "Traceback"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (typer.Exit(4), 4, ""),
    ],
)
def test_every_kind_of_error_has_its_code(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, words: str
) -> None:
    """Goes red when two kinds of end get one code, an expected fault shows a traceback, or a bug hides its own."""
    assert ended_with(error) == code
    captured = capsys.readouterr()
    assert words in captured.err
    assert ("Traceback" in captured.err) == isinstance(error, ZeroDivisionError)
    assert captured.out == ""


def test_what_ttsbench_logs_is_shown_while_a_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Goes red when capacity and warnings stay unseen, or a command leaves its handler behind in the process."""
    log = logging.getLogger("ttsbench.engine")
    with reported():
        log.info("capacity: 8 slots")
    log.info("afterwards")
    assert capsys.readouterr().err == "capacity: 8 slots\n"


def test_words_that_nobody_reads_change_no_exit_code() -> None:
    """Goes red when a closed stderr ends a command: at once, or when the buffer is flushed again at exit."""
    with pipe_without_reader() as stream, redirect_stderr(stream):
        say_to_user("hello")
        say_to_user("still there?")
        assert ended_with(InvalidInput([Problem("a", "b", "c")])) == 2
