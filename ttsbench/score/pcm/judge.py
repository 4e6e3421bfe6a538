"""The PCM audit of a run: records and WAVs in, what sounds wrong out, labelled as inferred.

For engines that give no trace. Every expected row gets a record; rows without audio say why, and rows on which a
detector broke are unscored, never clean.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from pydantic import JsonValue

from ttsbench.records import Coverage, RequestRecord, RowStatus, canonical_sha256, sha256_of
from ttsbench.records.pcm import FaultKind, PcmRow, PcmSummary
from ttsbench.score.pcm.audit import Heard, hear
from ttsbench.score.pcm.edges import click_period, compare_edges
from ttsbench.score.pcm.joints import Bars, Evidence
from ttsbench.score.pcm.pace import Pace, find_pace_faults
from ttsbench.score.pcm.pinned import pinned
from ttsbench.score.source import RunSource

LONG_S = 30.0
NO_RECORD = "the row has no record"
NOT_HEARD = "the row's audio was not heard"


class _Unheard(Exception):
    """Why a row has no audio to hear."""

    def __init__(self, cause: str, detail: str) -> None:
        self.cause = cause
        super().__init__(detail)


def judge_pcm(source: RunSource) -> tuple[tuple[PcmRow, ...], PcmSummary]:
    """Every expected row's findings, in row order, and their summary. Writes nothing."""
    engine = source.manifest.engine
    hop_s = engine.hop_samples / engine.sample_rate_hz
    pace = _pace(source)
    judged = [
        _judge(source.folder.path, index, record, hop_s, pace, engine.sample_rate_hz, engine.hop_samples)
        for index, record in source.rows()
    ]
    clips = [heard.joints for _, heard in judged if heard is not None and heard.joints is not None]
    bars = Bars.of(clips)
    rows = tuple(row if heard is None else row.revised(findings=heard.findings(bars)) for row, heard in judged)
    return rows, _summarise(rows, clips, bars, hop_s)


def _pace(source: RunSource) -> Pace | None:
    """How long texts take among rows that were spoken to their end."""
    spoken = [record for _, record in source.rows() if record is not None and record.status is RowStatus.OK]
    timed = [(len(record.text), record.duration_s) for record in spoken if record.duration_s]
    return Pace.of([characters for characters, _ in timed], [seconds for _, seconds in timed])


def _judge(
    run_dir: Path, index: int, record: RequestRecord | None, hop_s: float, pace: Pace | None, rate_hz: int, hop: int
) -> tuple[PcmRow, Heard | None]:
    if record is None:
        fields = _unmeasured("missing", "missing_record", NO_RECORD)
        return PcmRow(row_index=index, utterance_id=None, utterance_id_missing=NO_RECORD, **fields), None
    known: dict[str, Any] = {"row_index": index, "utterance_id": record.utterance_id}
    try:
        samples, got_hz = _audio_of(run_dir, record)
    except _Unheard as why:
        return PcmRow(**known, **_unmeasured("failed", why.cause, str(why))), None
    duration_s = len(samples) / got_hz
    expected_s = None if pace is None else pace.expected_s(len(record.text))
    faults = find_pace_faults(duration_s, expected_s, pace.spread if pace else 0.0, record.status is RowStatus.LENGTH)
    try:
        heard = hear(samples, got_hz, hop_s, faults, record.clipped_samples)
    except Exception as error:  # whatever a detector raises, the row stays in the result, with the reason
        return PcmRow(**known, **_unmeasured("unscored", "audit_error", f"{type(error).__name__}: {error}")), None
    other_rate = None if got_hz == rate_hz else f"audio at {got_hz} Hz, the engine's hop is at {rate_hz} Hz"
    row = PcmRow(
        **known,
        status="measured",
        cause=None,
        cause_detail=None,
        duration_s=duration_s,
        expected_s=expected_s,
        expected_s_missing="too few rows to know the run's pace" if expected_s is None else None,
        whole_frames=None if other_rate else len(samples) % hop == 0,
        whole_frames_missing=other_rate,
        findings=heard.found,
    )
    return row, heard


def _unmeasured(status: str, cause: str, detail: str) -> dict[str, Any]:
    names = ("duration_s", "expected_s", "whole_frames", "findings")
    nulls = dict.fromkeys(names) | {f"{name}_missing": NOT_HEARD for name in names}
    return {"status": status, "cause": cause, "cause_detail": detail} | nulls


def _audio_of(run_dir: Path, record: RequestRecord) -> tuple[np.ndarray, int]:
    """The row's samples [S], float32, and their rate, checked against its record. Raises _Unheard."""
    if record.wav_path is None:
        words = [part for part in (record.error_code, record.error_detail) if part is not None]
        raise _Unheard(record.status.value, ": ".join(words) or "no audio")
    try:
        data = (run_dir / record.wav_path).read_bytes()
    except FileNotFoundError:
        raise _Unheard("missing_wav", f"no file {record.wav_path}") from None
    except OSError as error:
        raise _Unheard("undecodable", f"{record.wav_path}: {error}") from None
    if sha256_of(data) != record.wav_sha256:
        raise _Unheard("wav_mismatch", f"{record.wav_path} is not the file that was recorded (sha256 differs)")
    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise _Unheard("undecodable", f"{record.wav_path} cannot be decoded: {error.error_string}") from None
    if not len(samples):
        raise _Unheard("empty", f"{record.wav_path} holds no samples")
    return samples.mean(axis=1), rate


def _summarise(rows: Sequence[PcmRow], clips: Sequence[Evidence], bars: Bars, hop_s: float) -> PcmSummary:
    measured = [row for row in rows if row.status == "measured"]
    findings = [row.findings or () for row in measured]
    affected = sum(bool(found) for found in findings)
    scorer: dict[str, JsonValue] = pinned()
    period = click_period(findings, hop_s)
    by_row = Counter(kind for found in findings for kind in {one.kind for one in found})
    by_finding = Counter(one.kind for found in findings for one in found)
    return PcmSummary(
        coverage=_coverage(rows),
        scorer=scorer,
        scorer_sha256=canonical_sha256(scorer),
        rows_affected=affected,
        rows_affected_pct=100 * affected / len(measured) if measured else None,
        rows_affected_pct_missing=None if measured else "no row was measured",
        rows_by_kind={kind: by_row[kind] for kind in FaultKind},
        findings_by_kind={kind: by_finding[kind] for kind in FaultKind},
        rows_over_30_s=sum((row.duration_s or 0.0) > LONG_S for row in measured),
        rows_of_broken_frames=sum(row.whole_frames is False for row in measured),
        splice_bar=bars.splice,
        click_bar=bars.click,
        edges=compare_edges(clips),
        click_period_frames=period,
        click_period_frames_missing="no clicks at frame edges that keep a distance" if period is None else None,
    )


def _coverage(rows: Sequence[PcmRow]) -> Coverage:
    by_status = Counter(row.status for row in rows)

    def causes(status: str) -> dict[str, int]:
        return dict(sorted(Counter(row.cause for row in rows if row.status == status and row.cause).items()))

    return Coverage(
        rows_expected=len(rows),
        rows_measured=by_status["measured"],
        rows_failed=by_status["failed"],
        rows_missing=by_status["missing"],
        rows_unscored=by_status["unscored"],
        failed_by_cause=causes("failed"),
        unscored_by_cause=causes("unscored"),
    )
