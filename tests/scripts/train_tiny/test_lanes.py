"""Lanes run their pieces once and in order, and no failure is overheard."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from scripts.train_tiny import lanes
from scripts.train_tiny.lanes import Failed, Piece, Sitting


class Line(Piece):
    """A piece that runs a line of Python."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", *map(str, self.arguments())]


def line(name: str, code: str, *needs: Path) -> Piece:
    return Line(name, "", lambda: [code], needs)


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sitting:
    monkeypatch.setattr(lanes, "POLL_S", 0.01)
    return Sitting(tmp_path, time.time() + 20)


def test_a_sitting_writes_down_what_it_ran_and_skips_it_the_next_time(held: Sitting, tmp_path: Path) -> None:
    """Red when a piece leaves no mark, or the second lane writes over the first one's times."""
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    both = {"0.first": [line("a", code), line("b", code)], "1.second": [line("c", code, tmp_path / "logs" / "a.done")]}
    for _ in range(2):
        held.hold(both)
        times = json.loads((tmp_path / "times.json").read_text())
        assert sorted((entry["piece"], entry["exit"], entry["gpu"]) for entry in times) == [
            ("a", 0, "0"), ("b", 0, "0"), ("c", 0, "1"),
        ]  # fmt: skip
        assert [(tmp_path / "logs" / f"{name}.log").read_text().strip() for name in "abc"] == ["0", "0", "1"]
    held.hold({"0.first": [*both["0.first"], line("d", code)]})
    assert [entry["piece"] for entry in json.loads((tmp_path / "times.json").read_text())][3:] == ["d"]


def test_a_failed_piece_ends_both_lanes_and_is_not_done(held: Sitting, tmp_path: Path) -> None:
    """The other lane waits for it. Red when it goes on waiting, or takes the piece for done."""
    never = tmp_path / "never"
    bad = line("bad", "raise SystemExit(3)")
    with pytest.raises(Failed, match=r"bad ended with exit 3; .*bad\.log"):
        held.hold({"0.first": [bad, line("after", "")], "1.second": [line("other", "", never), line("last", "")]})
    times = json.loads((tmp_path / "times.json").read_text())
    assert [(entry["piece"], entry["exit"]) for entry in times] == [("bad", 3)]
    assert not list((tmp_path / "logs").glob("*.done"))
    assert held.left_s > 1, "and not because the time was up"


def test_no_piece_begins_after_another_lane_has_failed(held: Sitting, tmp_path: Path) -> None:
    """Red when a lane that has nothing to wait for goes on to train for minutes."""
    held.hold({"0.first": [line("good", "")]})
    with pytest.raises(Failed):
        held.hold({"0.first": [line("bad", "raise SystemExit(1)")]})
    held.hold({"1.second": [line("good", ""), line("new", "")]})
    assert not (tmp_path / "logs" / "new.log").exists()


def test_an_exception_in_a_lane_surfaces_and_ends_the_other(held: Sitting, tmp_path: Path) -> None:
    """Red when a lane's thread takes it along: the other would wait for ever, or the sitting would look well."""

    def broken() -> list[object]:
        raise ZeroDivisionError("no such argument")

    with pytest.raises(ZeroDivisionError, match="no such argument"):
        held.hold({"0.first": [line("waits", "", tmp_path / "never")], "1.second": [Line("broken", "", broken)]})
    assert held.left_s > 1, "the other lane ended with it"


def test_nothing_is_waited_for_beyond_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a lane waits on for a file that the other one did not make in time."""
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it waits on"))
    late = Sitting(tmp_path, time.time() - 1)
    with pytest.raises(Failed, match=r"the time is up and talker still waits for .*never"):
        late.hold({"0.first": [line("talker", "", tmp_path / "never")]})
