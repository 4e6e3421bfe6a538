"""The PCM audit of a run: records and WAVs in, what sounds wrong out, labelled as inferred.

For engines that give no trace. Every expected row gets a record; rows without audio say why, and rows on which a
detector broke are unscored, never clean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from ttsbench.records import Coverage, Heading, RequestRecord, RowStatus, canonical_sha256
from ttsbench.records.pcm import FaultKind, PcmRow, PcmSummary
from ttsbench.score.pcm.audit import Heard, hear
from ttsbench.score.pcm.edges import click_period, compare_edges
from ttsbench.score.pcm.joints import Bars, Evidence
from ttsbench.score.pcm.pace import Length, Pace, find_pace_faults
from ttsbench.score.pcm.pinned import pinned
from ttsbench.score.row_audio import Charge, audio_of
from ttsbench.score.source import RunSource

LONG_S = 30.0
NO_RECORD = "the row has no record"
NOT_HEARD = "the row's audio was not heard"


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
    """How long texts take among rows that were spoken to their end. Only lengths are kept: runs outgrow memory."""
    spoken = [record for _, record in source.rows() if record is not None and record.status is RowStatus.OK]
    timed = [(len(record.text), _sounding_s(source.folder.path, record)) for record in spoken]
    heard = [(characters, seconds) for characters, seconds in timed if seconds > 0]
    return Pace.of([characters for characters, _ in heard], [seconds for _, seconds in heard])


def _sounding_s(run_dir: Path, record: RequestRecord) -> float:
    """0 for a row without usable audio, as for one that is silent."""
    audio = audio_of(run_dir, record, any_numbers=True)
    return 0.0 if isinstance(audio, Charge) else Length.of(audio.samples, audio.sample_rate_hz).sounding_s


def _judge(
    run_dir: Path, index: int, record: RequestRecord | None, hop_s: float, pace: Pace | None, rate_hz: int, hop: int
) -> tuple[PcmRow, Heard | None]:
    if record is None:
        fields = _unmeasured("missing", "missing_record", NO_RECORD)
        return PcmRow(row_index=index, utterance_id=None, utterance_id_missing=NO_RECORD, **fields), None
    known: dict[str, Any] = {"row_index": index, "utterance_id": record.utterance_id}
    audio = audio_of(run_dir, record, any_numbers=True)
    if isinstance(audio, Charge):
        return PcmRow(**known, **_unmeasured("failed", audio.cause, audio.detail)), None
    samples, got_hz = audio.samples, audio.sample_rate_hz
    length = Length.of(samples, got_hz)
    expected_s = None if pace is None else pace.expected_s(len(record.text))
    faults = find_pace_faults(length, expected_s, pace.spread if pace else 0.0, record.status is RowStatus.LENGTH)
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
        duration_s=length.file_s,
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


def _summarise(rows: Sequence[PcmRow], clips: Sequence[Evidence], bars: Bars, hop_s: float) -> PcmSummary:
    measured = [row for row in rows if row.status == "measured"]
    findings = [row.findings or () for row in measured]
    affected = sum(bool(found) for found in findings)
    scorer: dict[str, JsonValue] = pinned()
    period = click_period(findings, hop_s)
    by_row = Counter(kind for found in findings for kind in {one.kind for one in found})
    by_finding = Counter(one.kind for found in findings for one in found)
    return PcmSummary(
        coverage=Coverage.of((Heading(row.status), row.cause) for row in rows),
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
