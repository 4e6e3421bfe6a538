"""One row's word error rate: recognised and compared, charged as wholly wrong, or left unscored.

A row is charged for anything that keeps a listener from hearing it: no record, no audio, broken audio, silence. It is
unscored only when the recogniser itself breaks, since that says nothing about the speech.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ttsbench.records import Outcome, RequestRecord, RowStatus, WerRecord, sha256_of
from ttsbench.score.asr import Transcriber
from ttsbench.score.audio import Audio, AudioFault, audible_windows, decode_wav, for_asr
from ttsbench.score.protocol import ScoringProtocol
from ttsbench.score.wer import all_deleted, split_words, word_edits

NO_RECORD = "the row has no record"
NOT_RECOGNISED = "the row was not recognised"


class _Charge(Exception):
    """Why a row counts as wholly wrong."""

    def __init__(self, cause: str, detail: str) -> None:
        self.cause = cause
        super().__init__(detail)


def judge_row(run_dir: Path, record: RequestRecord, protocol: ScoringProtocol, transcriber: Transcriber) -> WerRecord:
    """The WER record of a row, whatever state its audio is in."""
    reference = protocol.normalise(record.text)
    try:
        audio = _audio_of(run_dir, record, reference)
        samples = for_asr(audio)
        if not audible_windows(samples):
            raise _Charge("silent", f"{audio.duration_s:.2f} s of silence")
    except _Charge as charge:
        return _charged(record, protocol, reference, charge)
    return _recognise(record, protocol, reference, audio, samples, transcriber)


def judge_missing(row_index: int, protocol: ScoringProtocol) -> WerRecord:
    """The WER record of a row that the run never got to: charged, its words unknown."""
    return WerRecord(
        protocol_id=protocol.id,
        row_index=row_index,
        utterance_id=None,
        utterance_id_missing=NO_RECORD,
        status=None,
        status_missing=NO_RECORD,
        outcome=Outcome.CHARGED,
        cause="missing_record",
        cause_detail=NO_RECORD,
        reference=None,
        reference_missing=NO_RECORD,
        transcript=None,
        transcript_missing=NOT_RECOGNISED,
        hypothesis=None,
        hypothesis_missing=NOT_RECOGNISED,
        substitutions=None,
        substitutions_missing=NO_RECORD,
        deletions=None,
        deletions_missing=NO_RECORD,
        insertions=None,
        insertions_missing=NO_RECORD,
        reference_words=None,
        reference_words_missing=NO_RECORD,
        wer_pct=100.0,
        audio_s=None,
        audio_s_missing=NO_RECORD,
    )


def _audio_of(run_dir: Path, record: RequestRecord, reference: str) -> Audio:
    """The row's audio, checked against its record. Raises _Charge."""
    if record.status not in (RowStatus.OK, RowStatus.LENGTH):
        words = [part for part in (record.error_code, record.error_detail) if part is not None]
        raise _Charge(record.status.value, ": ".join(words) or "no utterance to judge")
    if not split_words(reference):
        raise _Charge("no_reference_words", "the text rule leaves nothing of the text")
    assert record.wav_path is not None  # the record's own validation ties a file to these two statuses
    try:
        data = (run_dir / record.wav_path).read_bytes()
    except FileNotFoundError:
        raise _Charge("missing_wav", f"no file {record.wav_path}") from None
    except OSError as error:
        raise _Charge("undecodable", f"{record.wav_path}: {error}") from None
    try:
        audio = decode_wav(data)
    except AudioFault as fault:
        raise _Charge("undecodable", f"{record.wav_path} {fault}") from None
    _check_same_audio(record, data, audio)
    return audio


def _check_same_audio(record: RequestRecord, data: bytes, audio: Audio) -> None:
    if sha256_of(data) != record.wav_sha256:
        raise _Charge("wav_mismatch", f"{record.wav_path} is not the file that was recorded (sha256 differs)")
    got = (len(audio.samples), audio.sample_rate_hz)
    if got != (record.samples, record.sample_rate_hz):
        expected = f"{record.samples} samples at {record.sample_rate_hz} Hz"
        raise _Charge("wav_mismatch", f"{record.wav_path} holds {got[0]} samples at {got[1]} Hz, recorded {expected}")


def _row_fields(record: RequestRecord, protocol: ScoringProtocol, reference: str) -> dict[str, Any]:
    """What the WER record of a recorded row says whatever became of it."""
    return {
        "protocol_id": protocol.id,
        "row_index": record.row_index,
        "utterance_id": record.utterance_id,
        "status": record.status,
        "reference": reference,
    }


def _recognise(
    record: RequestRecord,
    protocol: ScoringProtocol,
    reference: str,
    audio: Audio,
    samples: np.ndarray,
    transcriber: Transcriber,
) -> WerRecord:
    try:
        transcript = transcriber.transcribe(samples)
    except Exception as error:  # whatever a recogniser raises, the row stays in the result, with the reason
        return _unscored(record, protocol, reference, audio, error)
    hypothesis = protocol.normalise(transcript)
    edits = word_edits(reference, hypothesis)
    return WerRecord(
        **_row_fields(record, protocol, reference),
        outcome=Outcome.SCORED,
        cause=None,
        cause_detail=None,
        transcript=transcript,
        hypothesis=hypothesis,
        substitutions=edits.substitutions,
        deletions=edits.deletions,
        insertions=edits.insertions,
        reference_words=edits.reference_words,
        wer_pct=edits.wer_pct,
        audio_s=audio.duration_s,
    )


def _charged(record: RequestRecord, protocol: ScoringProtocol, reference: str, charge: _Charge) -> WerRecord:
    edits = all_deleted(reference)
    return WerRecord(
        **_row_fields(record, protocol, reference),
        outcome=Outcome.CHARGED,
        cause=charge.cause,
        cause_detail=str(charge),
        transcript=None,
        transcript_missing=NOT_RECOGNISED,
        hypothesis=None,
        hypothesis_missing=NOT_RECOGNISED,
        substitutions=edits.substitutions,
        deletions=edits.deletions,
        insertions=edits.insertions,
        reference_words=edits.reference_words,
        wer_pct=edits.wer_pct,
        audio_s=None,
        audio_s_missing=NOT_RECOGNISED,
    )


def _unscored(
    record: RequestRecord, protocol: ScoringProtocol, reference: str, audio: Audio, error: Exception
) -> WerRecord:
    broke = "the recogniser broke"
    return WerRecord(
        **_row_fields(record, protocol, reference),
        outcome=Outcome.UNSCORED,
        cause="asr_error",
        cause_detail=f"{type(error).__name__}: {error}",
        transcript=None,
        transcript_missing=broke,
        hypothesis=None,
        hypothesis_missing=broke,
        substitutions=None,
        substitutions_missing=broke,
        deletions=None,
        deletions_missing=broke,
        insertions=None,
        insertions_missing=broke,
        reference_words=len(split_words(reference)),
        wer_pct=None,
        wer_pct_missing=broke,
        audio_s=audio.duration_s,
    )
