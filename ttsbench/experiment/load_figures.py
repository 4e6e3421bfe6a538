"""What a timed round comes to, as plain JSON values: throughput, first audio, gaps, and each observation.

Rounds are pooled by adding up what they are made of, never by averaging their rates. A percentile that too few values
carry is null and named under `withheld`, by the rule of `score.timing`: one value at least must be expected beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ttsbench.experiment.load import RoundResult

LEVELS = (50, 95, 99)


def distribution(values_s: Sequence[float] | np.ndarray) -> dict[str, Any] | None:
    """Mean, percentiles and largest of some seconds; None for no values."""
    values = np.asarray(values_s, dtype=np.float64)
    if not len(values):
        return None
    carried = [level for level in LEVELS if len(values) * min(level, 100 - level) >= 100]
    percentiles = {level: float(np.percentile(values, level)) for level in carried}
    return {
        "values": len(values),
        "mean": _rounded(values.mean()),
        **{f"p{level}": _rounded(percentiles[level]) if level in percentiles else None for level in LEVELS},
        "largest": _rounded(values.max()),
        "withheld": [f"p{level}" for level in LEVELS if level not in carried],
    }


def round_figures(result: RoundResult) -> dict[str, Any]:
    """One round in a line."""
    frames = sum(o.frames for o in result.observations)
    samples = sum(o.samples for o in result.observations)
    return {
        "concurrency": result.concurrency,
        "peak": result.peak,
        "rows": result.rows,
        "complete": result.complete,
        "finishes": result.finishes,
        "bad": {o.utterance_id: o.cause for o in result.bad},
        **_speed([result]),
        "frames": frames,
        "samples": samples,
        "samples_add_up": samples == frames * result.hop_samples,
        "consumer_s": _rounded(result.consumer_s),
        "digest": result.digest,
        "stats": result.stats,
    }


def pooled_figures(results: Sequence[RoundResult]) -> dict[str, Any]:
    """Several rounds as one, with the range of their throughput."""
    rates = [result.audio_s / result.wall_s for result in results if result.wall_s]
    return {
        "rounds": len(results),
        **_speed(results),
        "by_round": [_rounded(min(rates)), _rounded(max(rates))] if rates else None,
        "rows": sum(len(result.observations) for result in results),
        "bad_rows": sum(len(result.bad) for result in results),
        "digests": sorted({result.digest for result in results}),
    }


def observation_columns(result: RoundResult) -> dict[str, list[Any]]:
    """Every observation, a column per field, times in microseconds from the round's first hand-in."""

    def since(ns: int | None) -> int | None:
        return None if ns is None else (ns - result.began_ns) // 1000

    rows = result.observations
    return {
        "utterance_id": [o.utterance_id for o in rows],
        "handed_in_us": [since(o.handed_in_ns) for o in rows],
        "first_audio_us": [since(o.first_audio_ns) for o in rows],
        "ended_us": [since(o.ended_ns) for o in rows],
        "frames": [o.frames for o in rows],
        "samples": [o.samples for o in rows],
        "finish": [o.finish.reason.value for o in rows],
        "digest": [o.digest for o in rows],
    }


def _speed(results: Iterable[RoundResult]) -> Mapping[str, Any]:
    results = list(results)
    wall_s, audio_s = sum(r.wall_s for r in results), sum(r.audio_s for r in results)
    first = [o.first_audio_s for r in results for o in r.observations if o.spoken and o.first_audio_s is not None]
    gaps = np.concatenate([np.asarray(r.gaps_ns, dtype=np.int64) for r in results]) / 1e9
    return {
        "wall_s": _rounded(wall_s),
        "audio_s": _rounded(audio_s),
        "audio_s_per_wall_s": _rounded(audio_s / wall_s) if wall_s else None,
        "rtf": _rounded(wall_s / audio_s) if audio_s else None,
        "first_audio_s": distribution(first),
        "gap_s": distribution(gaps),
    }


def _rounded(value: float) -> float:
    """Six significant digits: finer than any of these is known."""
    return float(f"{value:.6g}")
