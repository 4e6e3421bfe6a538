"""A bar for people at a terminal, lines for logs."""

from __future__ import annotations

import io
import time

import pytest

from ttsbench.cli.progress import RowProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_live_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes red when people at a terminal see lines instead of one bar, or no count."""
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with RowProgress("synth", 4) as bar:
        bar.update(3, "1 charged")
    shown = terminal.getvalue()
    assert "\x1b[" in shown
    assert "3/4" in shown
    assert "1 charged" in shown


def test_a_log_gets_plain_lines_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes red when escape codes reach a log, every row writes a line, or the last line is missing."""
    monkeypatch.setattr("sys.stderr", log := io.StringIO())
    clock = iter([0.0, *(1.0 + i for i in range(100))])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with RowProgress("synth", 20) as bar:
        for done in range(1, 21):
            bar.update(done, "0 charged")
    lines = log.getvalue().splitlines()
    assert "\x1b" not in log.getvalue()
    assert 2 <= len(lines) < 10
    assert lines[-1] == "synth: 20/20 rows, 0 charged"
    assert all("ETA" in line for line in lines[:-1])


def test_rows_done_before_tell_nothing_about_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes red when a resumed run takes the rows it found for rows it made, and promises too early an end."""
    monkeypatch.setattr("sys.stderr", log := io.StringIO())
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with RowProgress("synth", 100, done=90) as bar:
        now[0] = 10.0
        bar.update(92)
    assert log.getvalue() == "synth: 92/100 rows, ETA 40 s\n"
