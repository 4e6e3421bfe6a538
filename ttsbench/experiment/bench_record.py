"""What timed rounds become on disk: each round with its observations, and the counted ones of a concurrency pooled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ttsbench
from ttsbench.adapters.native import NativeEngine
from ttsbench.corpus import Corpus
from ttsbench.experiment import host
from ttsbench.experiment.load import Observation, RoundResult
from ttsbench.experiment.manifest import RUNNING, checkpoint_record, corpus_record, engine_record, settings_record
from ttsbench.experiment.rows import RowPlan
from ttsbench.records import (
    BenchObservation,
    BenchPooled,
    BenchRecord,
    BenchRound,
    RunStatus,
    canonical_sha256,
    utc_now,
)
from ttsbench.score.timing.percentiles import distribution

WITHIN_ROWS = "chunks of one row are not independent"
ACROSS_ROUNDS = "every round speaks the same rows"
"""Why pooled values have no interval."""
NO_TIME, NO_AUDIO, NO_SAMPLES = "no time passed", "no row's audio counts", "no row has samples that count"
ONE_CHUNK = "no row has a second chunk with samples"
UNTOLD = "the engine tells nothing of itself"


def describe_bench(
    engine: NativeEngine, corpus: Corpus, plan: RowPlan, concurrencies: Sequence[int], rounds: int
) -> BenchRecord:
    """The record of a measurement that starts now."""
    profile = engine.profile.resolved()
    return BenchRecord(
        tool_version=ttsbench.__version__,
        code=host.code_revision(),
        status=RunStatus.RUNNING,
        started_at=utc_now(),
        ended_at=None,
        ended_at_missing=RUNNING,
        profile=profile,
        profile_sha256=canonical_sha256(profile),
        corpus=corpus_record(corpus),
        checkpoint=checkpoint_record(engine),
        engine=engine_record(engine.info()),
        settings=settings_record(plan, max(concurrencies), stream=True).revised(tracing=False),
        concurrencies=tuple(concurrencies),
        rounds_asked=rounds,
        software=host.software(),
        hardware=host.hardware(),
        placement=host.placement(),
        rounds=(),
        pooled=(),
    )


def bench_round(result: RoundResult, number: int, corpus: Corpus) -> BenchRound:
    """The record of one round; `number` 0 is the priming one."""
    place = {row.utterance_id: index for index, row in enumerate(corpus.rows)}
    stats = None if result.stats is None else dict(result.stats)
    return BenchRound(
        **_figures([result]),
        number=number,
        counted=number > 0 and result.complete,
        complete=result.complete,
        rows=result.rows,
        peak=result.peak,
        rows_by_finish=result.finishes,
        rows_bad=len(result.bad),
        frames=sum(o.frames for o in result.observations),
        samples=sum(o.samples for o in result.observations),
        consumer_s=result.consumer_s,
        digest=result.digest,
        engine_stats=stats,
        engine_stats_missing=UNTOLD if stats is None else None,
        observations=tuple(_observation(o, place[o.utterance_id], result.began_ns) for o in result.observations),
    )


def pooled(results: Sequence[RoundResult]) -> BenchPooled:
    """The counted rounds of one concurrency as one."""
    rates = [result.audio_s / result.wall_s for result in results if result.wall_s]
    known = len(rates) == len(results)
    why = None if known else NO_TIME
    return BenchPooled(
        **_figures(results),
        rounds=len(results),
        slowest=min(rates) if known else None,
        slowest_missing=why,
        fastest=max(rates) if known else None,
        fastest_missing=why,
        rows_bad=sum(len(result.bad) for result in results),
    )


def _figures(results: Sequence[RoundResult]) -> dict[str, Any]:
    """The fields of `LoadFigures`, sums first."""
    wall_s, audio_s = sum(r.wall_s for r in results), sum(r.audio_s for r in results)
    first = [o.first_audio_s for r in results for o in r.observations if o.spoken and o.first_audio_s is not None]
    gaps = [ns / 1e9 for r in results for ns in r.gaps_ns]
    again = ACROSS_ROUNDS if len(results) > 1 else None
    return {
        "concurrency": results[0].concurrency,
        "wall_s": wall_s,
        "audio_s": audio_s,
        "audio_s_per_wall_s": audio_s / wall_s if wall_s else None,
        "audio_s_per_wall_s_missing": None if wall_s else NO_TIME,
        "rtf": wall_s / audio_s if audio_s else None,
        "rtf_missing": None if audio_s else NO_AUDIO,
        "first_audio_s": distribution(first, dependent=again) if first else None,
        "first_audio_s_missing": None if first else NO_SAMPLES,
        "gap_s": distribution(gaps, dependent=WITHIN_ROWS) if gaps else None,
        "gap_s_missing": None if gaps else ONE_CHUNK,
    }


def _observation(observed: Observation, row_index: int, began_ns: int) -> BenchObservation:
    first = observed.first_audio_ns
    return BenchObservation(
        row_index=row_index,
        utterance_id=observed.utterance_id,
        seed=observed.seed,
        handed_in_s=(observed.handed_in_ns - began_ns) / 1e9,
        first_audio_at_s=None if first is None else (first - began_ns) / 1e9,
        first_audio_at_s_missing="no sample came" if first is None else None,
        ended_s=(observed.ended_ns - began_ns) / 1e9,
        frames=observed.frames,
        samples=observed.samples,
        chunks=observed.chunks,
        finish_reason=observed.finish.reason.value,
        cause=observed.cause,
        digest=observed.digest,
    )
