"""Tables for docs, from lines as the benchmarks write them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.bench_table import changes_table, main, named_file, parts_table


def part(name: str, rows: int, us: float, floor_us: float | None) -> dict[str, Any]:
    return {"part": name, "rows": rows, "us": us, "floor_us": floor_us, "times_floor": None}


def pooled(concurrency: int, audio_s: float, wall_s: float) -> dict[str, Any]:
    return {"kind": "pooled", "concurrency": concurrency, "audio_s": audio_s, "wall_s": wall_s}


BEFORE = [{"at": "now"}, part("talker", 1, 1500, 660), part("talker", 128, 2000, 880), part("step", 1, 4000, None)]
AFTER = [
    {"at": "now"},
    part("talker", 1, 1100, 660),
    part("talker", 128, 1760, 880),
    part("codec", 1, 500, 50),
    {"part": "talker", "rows": 1, "kernel": "all", "calls": 9, "us": 900.0},
    part("step", 1, 3000, None),
]


def test_shares_of_the_floor() -> None:
    """Red when the files change places, a share is its inverse, a kernel's line is taken for its part's, or a part that
    one file lacks is made up.
    """
    head, rule, *rows = parts_table(BEFORE, AFTER).splitlines()
    assert head.count("|") == rule.count("|") == 8
    assert rows == [
        "| talker | 1 | 1,500 | 1,100 | 660 | 44 % | 60 % |",
        "| talker | 128 | 2,000 | 1,760 | 880 | 44 % | 50 % |",
        "| step | 1 | 4,000 | 3,000 | - | - | - |",
    ]


def test_a_part_measured_three_times_counts_as_its_median() -> None:
    """Red for the last or the mean."""
    times = [part("talker", 1, us, 660) for us in (1320, 4000, 1000)]
    assert "| 1,500 | 1,320 | 660 | 44 % | 50 % |" in parts_table(BEFORE, times)


def test_each_change_against_the_one_before() -> None:
    """Starts are pooled by their sums. Red when gains are against the first row, or starts are averaged."""
    series = [
        ("base", [pooled(1, 20, 1), pooled(128, 1000, 1), pooled(128, 1000, 3)]),
        ("fused norm", [pooled(1, 30, 1), pooled(128, 550, 1)]),
        ("one graph", [pooled(1, 33, 1)]),
        ("tails", [pooled(1, 33, 1), pooled(128, 1100, 1)]),
    ]
    head, _, *rows = changes_table(series).splitlines()
    assert head == "| change | C1: audio-s/s | gained | C128: audio-s/s | gained |"
    assert rows == [
        "| base | 20.0 |  | 500 |  |",
        "| fused norm | 30.0 | +50.0 % | 550 | +10.0 % |",
        "| one graph | 33.0 | +10.0 % | - |  |",
        "| tails | 33.0 | +0.0 % | 1,100 | +100.0 % |",
    ]


def test_a_series_of_steps() -> None:
    """Of bench_parts: times, of which less is better."""
    head, _, *rows = changes_table([("base", BEFORE), ("now", AFTER)], [1]).splitlines()
    assert head == "| change | rows 1: us a step | gained |"
    assert rows == ["| base | 4,000 |  |", "| now | 3,000 | -25.0 % |"]


def test_files_that_do_not_compare_are_refused() -> None:
    with pytest.raises(SystemExit, match="files of one benchmark"):
        changes_table([("base", BEFORE), ("now", [pooled(1, 20, 1)])])
    with pytest.raises(SystemExit, match="got neither"):
        changes_table([("base", [{"at": "now"}])])
    with pytest.raises(SystemExit, match="no part in common"):
        parts_table(BEFORE, [pooled(1, 20, 1)])


def test_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A printed table at a file's end is passed over. Red when the order of the arguments is lost."""
    old, new = tmp_path / "a=b.jsonl", tmp_path / "new.jsonl"
    old.write_text("\n".join(map(json.dumps, BEFORE)) + "\n  C  start\n")
    new.write_text("\n".join(map(json.dumps, AFTER)))
    monkeypatch.setattr(sys, "argv", ["bench_table", "parts", str(old), str(new)])
    main()
    assert "| talker | 1 | 1,500 | 1,100 |" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["bench_table", "changes", f"base={new}", f"split=8={new}", "--at", "1"])
    main()
    assert "| split=8 | 3,000 | +0.0 % |" in capsys.readouterr().out
    with pytest.raises(argparse.ArgumentTypeError, match="no file"):
        named_file("base=nowhere.jsonl")
