"""A file of timed rounds cannot contradict itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.records.bench_builder import FRAMES, HOP, bench, bench_round, observation
from ttsbench.records import RunStatus, write_record
from ttsbench.records.reader import read_bench


def test_a_file_reads_as_it_was_written(tmp_path: Path) -> None:
    record = bench()
    write_record(tmp_path / "a.json", record)
    assert read_bench(tmp_path / "a.json") == record


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"counted": False}, "counts exactly when"),
        ({"complete": False}, "counts exactly when"),
        ({"audio_s_per_wall_s": 5.0}, "is not audio_s / wall_s"),
        ({"rows_bad": 1}, "not those of the observations"),
        ({"rows_by_finish": {"stop": 1}}, "not those of the observations"),
        ({"observations": (observation(0),)}, "not those of the observations"),
    ],
)
def test_a_round_agrees_with_itself(changes: dict[str, Any], words: str) -> None:
    """Red when the check of that name is left out of `BenchRound`."""
    with pytest.raises(ValidationError, match=words):
        bench_round(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"profile_sha256": "0" * 64}, "not the hash of profile"),
        ({"settings": bench().settings.revised(tracing=True)}, "without tracing"),
        ({"rounds": (bench_round(0), bench_round(1, samples=7))}, f"7 samples are not {2 * FRAMES} frames of {HOP}"),
        ({"rounds": (bench_round(0),)}, "every round"),
    ],
)
def test_a_file_agrees_with_itself(changes: dict[str, Any], words: str) -> None:
    """Red when the check of that name is left out of `BenchRecord`."""
    with pytest.raises(ValidationError, match=words):
        bench(**changes)


def test_a_broken_measurement_keeps_what_it_has() -> None:
    assert bench(status=RunStatus.BROKEN, rounds=(bench_round(0),), pooled=()).pooled == ()
