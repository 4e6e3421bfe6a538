"""The CPU benchmark: its plan, its sums, and one run of it."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from scripts.bench_cpu import Setting, first_audio_s, machine, mirrored, ratios, table
from tests.cli.harness import CUSTOM_VOICE, terse
from tests.records.builders import request

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench_cpu.py"


def test_settings_take_turns_in_mirrored_order():
    """Leave `reversed` out and what slows down over a round falls on the same setting every time."""
    order = [setting for _, setting in mirrored("abc", 3)]
    assert order == list("abccbaabc")


def made(concurrency: int, **fields: Any) -> Setting:
    return replace(Setting(concurrency, cast(Any, None)), **fields)


def test_a_report_pools_rounds_and_shows_their_spread():
    """The mean of the factors, not of their inverses: 0.2 and 0.6 are 2.5 seconds of speech a second, not 3.3."""
    report = made(1, rtf=[0.6, 0.2], first_audio_s=[0.3, 0.1, 0.2], audio_s=8.0).report()
    assert (report["rtf"], report["rtf_by_round"], report["audio_s_per_wall_s"]) == (0.4, [0.2, 0.6], 2.5)
    assert (report["first_audio_median_s"], report["first_audio_range_s"]) == (0.2, [0.1, 0.3])


def test_first_audio_is_told_only_where_rows_do_not_wait():
    report = made(4, rtf=[0.5], first_audio_s=[0.3]).report()
    assert report["first_audio_median_s"] is None
    assert table([report]).splitlines()[1].endswith(" -")


def test_the_price_of_a_level_is_a_ratio_at_equal_concurrency():
    """Red when the ratio is turned over, or taken across loads; without a comparison there is none."""
    settings = [
        made(c, rtf=rtf, determinism=level)
        for c, level, rtf in [
            (1, "seeded", [0.2]),
            (1, "batch_invariant", [0.2]),
            (8, "seeded", [0.1, 0.3]),
            (8, "batch_invariant", [0.6]),
        ]
    ]
    assert ratios(settings) == [
        {"concurrency": 1, "seeded_over_batch_invariant": 1.0},
        {"concurrency": 8, "seeded_over_batch_invariant": 3.0},
    ]
    assert ratios([made(1, rtf=[0.2])]) == []


def test_first_audio_counts_from_the_hand_over():
    record = request(0, "A dog.", submitted_s=0.25, first_audio_s=0.75)
    assert first_audio_s(record) == pytest.approx(0.5)


def test_the_machine_line_names_the_processor():
    """Ask `platform.processor()` alone and a Debian machine answers with nothing, so the line names an architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", cpuinfo.read_text(), re.M) if cpuinfo.exists() else []
    assert machine()["cpu"] == (names or [platform.processor() or platform.machine()])[0]


def run_script(model: Path, *plan: str) -> list[dict[str, Any]]:
    """The JSON lines of a run."""
    command = [sys.executable, str(SCRIPT), "--model", str(model), *plan]
    ended = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=SCRIPT.parents[1], check=True)
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


def test_levels_are_compared_side_by_side(tmp_path):
    """Red when a level is not laid over the profile: then both settings run the same."""
    model = terse(CUSTOM_VOICE, tmp_path / "model")
    lines = run_script(model, "--concurrency", "2", "--rounds", "1", "--rows", "2", "--compare-determinism")
    counted = [line["determinism"] for line in lines if line.get("counted")]
    assert counted == ["batch_invariant", "seeded"]
    assert lines[-1]["seeded_over_batch_invariant"] > 0


def test_the_script_runs_and_counts_all_but_the_first_round(tmp_path):
    """Count the priming round and the settings report two rounds."""
    lines = run_script(
        terse(CUSTOM_VOICE, tmp_path / "model"), "--concurrency", "1", "2", "--rounds", "1", "--rows", "3"
    )
    rounds = [(line["round"], line["concurrency"], line["counted"]) for line in lines if "counted" in line]
    assert rounds == [(0, 1, False), (0, 2, False), (1, 2, True), (1, 1, True)]
    one, two = lines[-2:]
    assert (one["rounds"], two["rounds"]) == (1, 1)
    assert one["audio_s"] == two["audio_s"] > 0
    assert one["first_audio_median_s"] > 0
