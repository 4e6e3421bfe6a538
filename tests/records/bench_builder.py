"""Valid records of timed rounds to change one thing in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.records.builders import manifest
from ttsbench.records import BenchObservation, BenchPooled, BenchRecord, BenchRound, RunStatus
from ttsbench.records.distribution import Distribution, Percentile

HOP = 1920
FRAMES = 25
"""Of every row: two seconds."""


def percentile(value: float | None) -> Percentile:
    why = None if value is not None else "p99 needs 100 values, there are 2"
    return Percentile(
        value=value, value_missing=why, low=None, low_missing="too few", high=None, high_missing="too few", weak=True
    )


def distribution(mean: float) -> Distribution:
    """Two values, both `mean`."""
    known, withheld = percentile(mean), percentile(None)
    return Distribution(
        values=2, rows_without_by_reason={}, mean=mean, smallest=mean, largest=mean,
        p50=known, p90=withheld, p95=withheld, p99=withheld,
    )  # fmt: skip


def observation(row_index: int = 0, **changes: Any) -> BenchObservation:
    """A row that went well: two seconds of audio."""
    fields: dict[str, Any] = {
        "row_index": row_index,
        "utterance_id": f"u{row_index}",
        "seed": row_index,
        "handed_in_s": 0.0,
        "first_audio_at_s": 0.25,
        "ended_s": 1.0,
        "frames": FRAMES,
        "samples": FRAMES * HOP,
        "chunks": FRAMES,
        "finish_reason": "stop",
        "cause": None,
        "digest": "0badcafe",
    }
    return BenchObservation(**fields | changes)


def bench_round(number: int = 1, concurrency: int = 2, **changes: Any) -> BenchRound:
    """Two rows at once, four seconds of audio in one."""
    fields: dict[str, Any] = {
        "concurrency": concurrency,
        "wall_s": 1.0,
        "audio_s": 4.0,
        "audio_s_per_wall_s": 4.0,
        "rtf": 0.25,
        "first_audio_s": distribution(0.25),
        "gap_s": distribution(0.03125),
        "number": number,
        "counted": number > 0,
        "complete": True,
        "rows": 2,
        "peak": min(concurrency, 2),
        "rows_by_finish": {"stop": 2},
        "rows_bad": 0,
        "frames": 2 * FRAMES,
        "samples": 2 * FRAMES * HOP,
        "consumer_s": 0.001,
        "digest": "0123456789abcdef",
        "engine_stats": None,
        "engine_stats_missing": "the engine tells nothing of itself",
        "observations": (observation(0), observation(1)),
    }
    return BenchRound(**fields | changes)


def pooled(concurrency: int = 2, **changes: Any) -> BenchPooled:
    """One counted round."""
    fields: dict[str, Any] = {
        "concurrency": concurrency,
        "wall_s": 1.0,
        "audio_s": 4.0,
        "audio_s_per_wall_s": 4.0,
        "rtf": 0.25,
        "first_audio_s": distribution(0.25),
        "gap_s": distribution(0.03125),
        "rounds": 1,
        "slowest": 4.0,
        "fastest": 4.0,
        "rows_bad": 0,
    }
    return BenchPooled(**fields | changes)


def bench(**changes: Any) -> BenchRecord:
    """One load, a priming round and a formal one."""
    run = manifest()
    shared = ("tool_version", "code", "profile", "profile_sha256", "corpus", "checkpoint", "engine")
    fields: dict[str, Any] = {name: getattr(run, name) for name in (*shared, "software", "hardware", "placement")}
    fields |= {
        "status": RunStatus.COMPLETE,
        "started_at": datetime(2026, 12, 1, 12, tzinfo=UTC),
        "ended_at": datetime(2026, 12, 1, 12, 1, tzinfo=UTC),
        "settings": run.settings.revised(tracing=False),
        "concurrencies": (2,),
        "rounds_asked": 1,
        "rounds": (bench_round(0), bench_round(1)),
        "pooled": (pooled(),),
    }
    return BenchRecord(**fields | changes)
