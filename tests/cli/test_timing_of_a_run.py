"""Timing of runs as `synth` really writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import Ended, ttsbench, write_list
from ttsbench.records import JsonlWriter, Record, RequestRecord, read_manifest, read_requests
from ttsbench.score.source import RunSource
from ttsbench.score.timing import judge_timing

ROWS = 7
CONCURRENCY = 3


def synth(model: Path, out: Path, *more: object) -> Ended:
    meta = out.parent / "en" / "meta.lst"
    if not meta.exists():
        write_list(meta, *(f"u{i}|Row number {i}" for i in range(ROWS)))
    given = ("synth", "--set", meta, "--model", model, "--out", out, "--max-frames", 40, "--seed", 1)
    return ttsbench(*given, "--concurrency", CONCURRENCY, *more)


def test_a_run_made_in_one_go(terse_custom_voice: Path, tmp_path: Path) -> None:
    """Red when the scorer and `synth` disagree on a wall time, or traces of a real run do not fit their records."""
    assert synth(terse_custom_voice, tmp_path / "run").code in (0, 4)
    rows, summary = judge_timing(RunSource.open(tmp_path / "run"))
    made = read_manifest(tmp_path / "run")
    assert summary.coverage.rows_measured == made.counts.ok > CONCURRENCY
    assert summary.phase.wall_s == made.wall_s
    # The audio is added up in another order: float64 rounding, and no more.
    assert summary.phase.audio_s == pytest.approx(made.audio_s, rel=1e-12)
    assert summary.phase.audio_s_per_wall_s == pytest.approx(made.audio_s_per_wall_s, rel=1e-12)
    assert summary.concurrency_peak == CONCURRENCY
    for row in rows:
        if row.cause is None and row.audio_chunks != 1:
            assert row.underrun_cumulative_s is not None, row.underrun_cumulative_s_missing
    assert summary.steady is not None
    assert summary.steady.audio_s, summary.steady.audio_s_missing
    assert summary.steady.audio_s < summary.phase.audio_s


def test_a_run_taken_whole(terse_custom_voice: Path, tmp_path: Path) -> None:
    """Red when first audio or continuity is made up for an engine that was not asked to stream."""
    assert synth(terse_custom_voice, tmp_path / "run", "--full").code in (0, 4)
    rows, summary = judge_timing(RunSource.open(tmp_path / "run"))
    measured = [row for row in rows if row.cause is None]
    assert {row.first_audio_s_missing for row in measured} == {"audio was taken whole"}
    assert {row.underrun_largest_s_missing for row in measured} == {"audio was taken whole"}
    assert summary.phase.audio_s_per_wall_s is not None


def test_a_run_that_was_killed_and_resumed(
    terse_custom_voice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first sitting dies at its third record. Red when times of the two sittings are subtracted from each other."""
    append, written = JsonlWriter.append, 0

    def dying(self: JsonlWriter, record: Record) -> None:
        nonlocal written
        written += isinstance(record, RequestRecord)
        if written == 3:
            raise KeyboardInterrupt
        append(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(JsonlWriter, "append", dying)
        assert synth(terse_custom_voice, tmp_path / "run").code == 130
    assert synth(terse_custom_voice, tmp_path / "run", "--resume").code in (0, 4)
    log = read_requests(tmp_path / "run")
    walls = []
    for sitting in (0, 1):
        own = [record for record in log.attempts if record.sitting == sitting]
        walls.append(max(r.finished_s or 0 for r in own) - min(r.submitted_s or 0 for r in own))
    assert len(log.rows) == ROWS
    rows, summary = judge_timing(RunSource.open(tmp_path / "run"))
    assert [sitting.phase.wall_s for sitting in summary.sittings] == walls
    assert summary.phase.wall_s == sum(walls)
    measured = [row for row in rows if row.cause is None]
    assert len(measured) == summary.phase.rows == sum(sitting.phase.rows for sitting in summary.sittings)
    assert {row.underrun_largest_s_missing for row in measured} <= {None, "fewer than two chunks with audio"}
