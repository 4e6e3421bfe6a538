"""What closes a run's manifest is counted from its records."""

from __future__ import annotations

from typing import Any

import pytest

from tests.records.builders import manifest, request, request_without_audio
from ttsbench.experiment.manifest import close_manifest
from ttsbench.records import RequestLog, RequestRecord, RowStatus, RunManifest, RunStatus, sha256_of


def closed(*attempts: RequestRecord, sitting: int = 0, resumed_rows: int = 0) -> RunManifest:
    begun = manifest(rows=2, status=RunStatus.RUNNING, sitting=sitting, resumed_rows=resumed_rows)
    log = RequestLog({record.row_index: record for record in attempts}, attempts, 0, sha256_of(b""))
    return close_manifest(begun, log, RunStatus.COMPLETE)


def at(row_index: int, submitted_s: float, finished_s: float) -> RequestRecord:
    first = {"first_audio_s": submitted_s, "wav_written_s": finished_s}
    return request(row_index).revised(submitted_s=submitted_s, finished_s=finished_s, **first)


def test_wall_time_runs_from_the_first_hand_over_to_the_last_end() -> None:
    """Goes red when the row that ends last is taken for the one that began first, or time before any row counts."""
    done = closed(at(0, 2.0, 9.0), at(1, 1.5, 5.0))
    assert done.wall_s == pytest.approx(7.5)
    assert done.audio_s_per_wall_s == pytest.approx(2 / 7.5)


def test_only_rows_of_the_sitting_count() -> None:
    """Goes red when the clocks of two sittings, each with its own zero, are mixed."""
    before = [request_without_audio(i, RowStatus.CANCELLED, submitted_s=0.0, finished_s=99.0) for i in range(2)]
    again = [at(i, 1.0, 3.0).revised(attempt=2, sitting=1, request_id=f"r{i}b") for i in range(2)]
    assert closed(*before, *again, sitting=1).wall_s == pytest.approx(2.0)


def test_without_a_row_in_the_engine_there_is_no_wall_time() -> None:
    """Goes red when nothing becomes 0 seconds, or a division by it."""
    never: dict[str, Any] = {}
    for name in ("submitted_s", "finished_s"):
        never |= {name: None, f"{name}_missing": "never submitted"}
    done = closed(*(request_without_audio(i, RowStatus.INVALID, **never) for i in range(2)))
    assert (done.wall_s, done.wall_s_missing) == (None, "no row reached the engine")
    assert done.audio_s == 0


def test_a_resumed_run_has_no_wall_time() -> None:
    """Goes red when the last sitting's time passes for that of the whole run."""
    done = closed(at(0, 0.0, 1.0), at(1, 0.0, 1.0).revised(sitting=1), sitting=1, resumed_rows=1)
    assert done.wall_s is None
    assert done.audio_s == 2.0
