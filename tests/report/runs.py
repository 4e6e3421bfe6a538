"""Scored run folders: WER by a recogniser that is told what to hear, the other sections by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.records.builders import counts, manifest, request_without_audio
from tests.score.runs import FakeAsr, fake_protocol, spoken, write_run
from ttsbench.records import Coverage, RowStatus, RunFolder, ScoreSummary, read_scores, sha256_of, write_record
from ttsbench.records.frames import FrameFigures, FramesByPosition, FramesSummary
from ttsbench.records.pcm import EdgeComparison, FaultKind, PcmSummary
from ttsbench.records.speaker import SimilarityStats, SpeakerSummary
from ttsbench.records.timing import Continuity, PhaseSpeed, RowFigures, SteadySpeed, TimingSummary, WithinLimit
from ttsbench.score.run import check_wer, score_wer, write_wer
from ttsbench.score.source import RunSource
from ttsbench.score.timing.percentiles import distribution

TEXT = "one two three four"
HASH = sha256_of(b"rules")
NO_CLIP = "the voice has no reference clip"
HEARD: dict[int, str | Exception] = {0: TEXT, 1: "one two three", 2: ""}


def wer_run(run_dir: Path, protocols: Mapping[str, Mapping[int, str | Exception]]) -> Path:
    """Three spoken rows and one that failed, under each protocol, which hears the words that it is told."""
    rows = [spoken(run_dir, index, TEXT) for index in range(3)] + [request_without_audio(3, RowStatus.FAILED, TEXT)]
    write_run(run_dir, rows, manifest(rows=4, counts=counts(4, ok=3, failed=1)))
    made = [
        dataclasses.replace(fake_protocol(FakeAsr(dict(words), weights=name)), id=name)
        for name, words in protocols.items()
    ]
    source = RunSource.open(run_dir)
    check_wer(source, made)
    write_wer(source.folder, score_wer(source, made))
    return run_dir


def scored_run(run_dir: Path, **sections: Any) -> ScoreSummary:
    """A run under one protocol and every scorer; a section given by name replaces the one made here."""
    wer_run(run_dir, {"fake-1": HEARD})
    made = {"speaker": speaker(), "frames": frames(), "pcm": pcm(), "timing": timing()} | sections
    write_record(RunFolder(run_dir).scores, read_scores(run_dir).revised(**made))
    return read_scores(run_dir)


def coverage(measured: int = 3, failed: int = 1, missing: int = 0, unscored: int = 0) -> Coverage:
    return Coverage(
        rows_expected=measured + failed + missing + unscored,
        rows_measured=measured,
        rows_failed=failed,
        rows_missing=missing,
        rows_unscored=unscored,
        failed_by_cause={"broken": failed} if failed else {},
        unscored_by_cause={"scorer_error": unscored} if unscored else {},
    )


def similarity(mean: float) -> SimilarityStats:
    return SimilarityStats(
        rows=3, mean_x100=mean, p5_x100=mean - 7.03, mean_low_x100=mean - 1.51, mean_high_x100=mean + 1.73
    )


def speaker(**changes: Any) -> SpeakerSummary:
    """Named voices: nothing to be similar to, but a consistency."""
    fields: dict[str, Any] = {
        "coverage": coverage(),
        "scorer": {},
        "scorer_sha256": HASH,
        "references": 0,
        "voices": 2,
        "rows_without_reference": 3,
        "rows_short": 1,
        "consistency": similarity(88.25),
        "rows_told_by_voice": 3,
        "rows_nearest_own_voice": 2,
    }
    names = ("similarity", "head_similarity", "foreign_similarity", "rows_echo_suspected", "rows_foreign_above_own")
    for name in names:
        fields |= {name: None, f"{name}_missing": NO_CLIP}
    return SpeakerSummary(**fields | changes)


def frames(**changes: Any) -> FramesSummary:
    """Three audited rows without a fault."""
    none = FramesByPosition(first=0, steady=0, tail=0)
    figures: dict[str, Any] = {name: 0 for name, field in FrameFigures.model_fields.items() if field.annotation is int}
    figures |= {"trace_sha256": HASH, "attempts": 3, "emissions": 41, "terminals": 3, "frames_emitted": 39}
    figures |= {"affected_pct": 0.0, "affected_upper_95_pct": 63.16, "missing_s": 0.0, "repeated_s": 0.0}
    figures |= {"missing_by_position": none, "repeated_by_position": none}
    figures |= {"findings_by_fault": {}, "rows_by_fault": {}}
    fields: dict[str, Any] = {
        "coverage": coverage(),
        "scorer": {},
        "scorer_sha256": HASH,
        "concurrency": 2,
        "hop_samples": 1920,
        "sample_rate_hz": 24_000,
        "figures": FrameFigures(**figures),
    }
    return FramesSummary(**fields | changes)


def pcm(found: Mapping[FaultKind, int] | None = None, rows: Coverage | None = None, **changes: Any) -> PcmSummary:
    """One row with two clicks, unless told otherwise."""
    found, rows = {FaultKind.CLICK: 2} if found is None else found, rows or coverage()
    edges: dict[str, Any] = {
        name: 1.25 for name, field in EdgeComparison.model_fields.items() if field.annotation == float | None
    }
    fields: dict[str, Any] = {
        "coverage": rows,
        "scorer": {},
        "scorer_sha256": HASH,
        "rows_affected": 1 if found else 0,
        "rows_affected_pct": 33.33,
        "rows_by_kind": {kind: int(kind in found) for kind in FaultKind},
        "findings_by_kind": {kind: found.get(kind, 0) for kind in FaultKind},
        "rows_over_30_s": 0,
        "rows_of_broken_frames": 0,
        "splice_bar": 9.5,
        "click_bar": 8.25,
        "edges": EdgeComparison(edges=120, inside=360, **edges),
        "click_period_frames": None,
        "click_period_frames_missing": "no clicks that keep a distance",
    }
    return PcmSummary(**fields | changes)


def row_figures(rows: int = 64, slowest_s: float = 0.2, **changes: Any) -> RowFigures:
    """Every latency spread evenly up to `slowest_s`; no row lacks a value."""
    spread = distribution([slowest_s * (1 + row) / rows for row in range(rows)])
    names = [name for name in RowFigures.model_fields if not name.endswith("_missing")]
    fields: dict[str, Any] = dict.fromkeys(names, spread) | {"rows": rows, "continuity": continuity(rows)}
    return RowFigures(**fields | changes)


def continuity(rows: int) -> Continuity:
    def within(limit_ms: int) -> WithinLimit:
        if rows == 0:
            return WithinLimit(limit_ms=limit_ms, rows=0, rows_within=0, share_pct=None, share_pct_missing="one chunk")
        return WithinLimit(limit_ms=limit_ms, rows=rows, rows_within=rows, share_pct=100.0)

    return Continuity(
        rows_stalled=0,
        stalls=0,
        late_chunks=0,
        c50=within(50),
        c100=within(100),
        c200=within(200),
        cumulative_100=within(100),
    )


def timing(**changes: Any) -> TimingSummary:
    """Whole phase only: full concurrency was never reached."""
    fields: dict[str, Any] = {
        "coverage": coverage(),
        "scorer": {},
        "scorer_sha256": HASH,
        "caveats": ("tracing was on",),
        "concurrency": 2,
        "concurrency_peak": 2,
        "phase": PhaseSpeed(
            rows=3,
            audio_s=31.25,
            wall_s=12.5,
            batch_wall_s=13.75,
            audio_s_per_wall_s=2.5,
            requests_per_wall_s=0.24,
            rtf_system=0.4,
            rtfx_system=2.5,
        ),
        "steady": None,
        "steady_missing": "full concurrency was never reached",
        "sittings": (),
        "rows": row_figures(),
        "steady_rows": None,
        "steady_rows_missing": "full concurrency was never reached",
        "goodput": None,
        "goodput_missing": "no limits were given",
    }
    return TimingSummary(**fields | changes)


def steady(audio_s: float) -> SteadySpeed:
    return SteadySpeed(windows=1, window_s=10.5, audio_s=audio_s, audio_s_per_wall_s=audio_s / 10.5)
