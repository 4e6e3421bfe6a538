"""One row's word error rate: compared with what was heard, charged as wholly wrong, or left unscored.

A row is charged for anything that keeps a listener from hearing it: no record, no audio, broken audio, silence. It is
unscored only when the recogniser itself breaks, since that says nothing about the speech.
"""

from __future__ import annotations

from typing import Any

from ttsbench.records import Outcome, RequestRecord, WerRecord
from ttsbench.score.hearing import Broken, Heard, Hearing
from ttsbench.score.protocol import ScoringProtocol
from ttsbench.score.row_audio import SPOKEN, Charge
from ttsbench.score.wer import all_deleted, split_words, word_edits

NO_RECORD = "the row has no record"
NOT_RECOGNISED = "the row was not recognised"


def wants_hearing(record: RequestRecord, protocol: ScoringProtocol) -> bool:
    """Whether a transcript could change the row's figure: not where the text rule leaves nothing to compare it with."""
    return record.status not in SPOKEN or bool(split_words(protocol.normalise(record.text)))


def judge_row(record: RequestRecord, hearing: Hearing | None, protocol: ScoringProtocol) -> WerRecord:
    """The WER record of a row, given what became of its audio; None if nobody wanted it heard."""
    reference = protocol.normalise(record.text)
    if not wants_hearing(record, protocol):
        nothing = Charge("no_reference_words", "the text rule leaves nothing of the text")
        return _charged(record, protocol, reference, nothing)
    match hearing:
        case Heard():
            return _scored(record, protocol, reference, hearing)
        case Broken():
            return _unscored(record, protocol, reference, hearing)
        case Charge():
            return _charged(record, protocol, reference, hearing)
        case None:
            raise ValueError(f"row {record.row_index} was to be heard")


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


def _row_fields(record: RequestRecord, protocol: ScoringProtocol, reference: str) -> dict[str, Any]:
    """What the WER record of a recorded row says whatever became of it."""
    return {
        "protocol_id": protocol.id,
        "row_index": record.row_index,
        "utterance_id": record.utterance_id,
        "status": record.status,
        "reference": reference,
    }


def _scored(record: RequestRecord, protocol: ScoringProtocol, reference: str, heard: Heard) -> WerRecord:
    hypothesis = protocol.normalise_transcript(heard.transcript)
    edits = word_edits(reference, hypothesis)
    return WerRecord(
        **_row_fields(record, protocol, reference),
        outcome=Outcome.SCORED,
        cause=None,
        cause_detail=None,
        transcript=heard.transcript,
        hypothesis=hypothesis,
        substitutions=edits.substitutions,
        deletions=edits.deletions,
        insertions=edits.insertions,
        reference_words=edits.reference_words,
        wer_pct=edits.wer_pct,
        audio_s=heard.audio_s,
    )


def _charged(record: RequestRecord, protocol: ScoringProtocol, reference: str, charge: Charge) -> WerRecord:
    edits = all_deleted(reference)
    return WerRecord(
        **_row_fields(record, protocol, reference),
        outcome=Outcome.CHARGED,
        cause=charge.cause,
        cause_detail=charge.detail,
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


def _unscored(record: RequestRecord, protocol: ScoringProtocol, reference: str, hearing: Broken) -> WerRecord:
    broke = "the recogniser broke"
    return WerRecord(
        **_row_fields(record, protocol, reference),
        outcome=Outcome.UNSCORED,
        cause="asr_error",
        cause_detail=hearing.error,
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
        audio_s=hearing.audio_s,
    )
