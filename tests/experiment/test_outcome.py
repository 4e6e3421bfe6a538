"""What becomes of a row's chunks: status, WAV and record, in every outcome."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.cli.harness import pcm_of
from tests.experiment.engines import HOP, PLAN, chunk, row
from ttsbench.core import AudioChunk, Finish, FinishReason, RowError, SpeechRequest
from ttsbench.experiment.drive import Job, RowResult
from ttsbench.experiment.outcome import OutcomeWriter
from ttsbench.experiment.rows import RowClip
from ttsbench.records import ReferenceVoiceRecord, RequestRecord, RowStatus, RunFolder

REQUEST = SpeechRequest("a#1", "a", "Hello.", PLAN.request(row("a"), 1).voice, seed=7, max_frames=100)


@pytest.fixture
def writer(tmp_path: Path) -> OutcomeWriter:
    (tmp_path / "wav").mkdir()
    made = OutcomeWriter(RunFolder(tmp_path), PLAN, "english", sitting=0, stream=True)
    made.origin_ns = 0
    return made


def ended(*chunks: AudioChunk) -> RowResult:
    return RowResult(Job(0, row("a"), 1), REQUEST, submitted_at_ns=5, chunks=list(chunks))


def wavs(writer: OutcomeWriter) -> list[str]:
    return [path.name for path in writer.folder.wav.iterdir()]


@pytest.mark.parametrize(
    ("reason", "status"), [(FinishReason.STOP, RowStatus.OK), (FinishReason.LENGTH, RowStatus.LENGTH)]
)
def test_an_utterance_that_ended_has_its_wav(writer: OutcomeWriter, reason: FinishReason, status: RowStatus) -> None:
    """Goes red when a chunk is left out of the WAV, put twice or in another order, or `length` passes for ok."""
    first, last = chunk("a#1"), chunk("a#1", 1, (1, 3), Finish(reason))
    first, last = replace(first, pcm=first.pcm * 2), replace(last, pcm=last.pcm * -2)
    record = writer.record(ended(first, last))
    assert (record.status, record.frames, record.samples, record.chunks) == (status, 3, 3 * HOP, 2)
    assert pcm_of(writer.folder.wav / "a.wav").tolist() == [16384] * HOP + [-16384] * 2 * HOP
    assert record.clipped_samples == 0


def test_clipped_samples_are_counted_in_the_record(writer: OutcomeWriter) -> None:
    """Goes red when samples are clamped and the record says none were."""
    loud = chunk("a#1", finish=Finish(FinishReason.STOP))
    loud = replace(loud, pcm=np.array([1.02, 1.0, -1.0001, 0.0], dtype=np.float32))
    assert writer.record(ended(loud)).clipped_samples == 2
    assert pcm_of(writer.folder.wav / "a.wav").tolist() == [32767, 32767, -32768, 0]


@pytest.mark.parametrize(
    ("finish", "status"),
    [
        (Finish(FinishReason.CANCELLED), RowStatus.CANCELLED),
        (Finish(FinishReason.FAILED, "non_finite", "frame 1"), RowStatus.FAILED),
        (Finish(FinishReason.FAILED), RowStatus.FAILED),
    ],
)
def test_a_part_of_an_utterance_never_lies_under_a_final_name(
    writer: OutcomeWriter, finish: Finish, status: RowStatus
) -> None:
    """Goes red when what a cancelled or failed row had spoken is written as if it were the utterance."""
    record = writer.record(ended(chunk("a#1"), chunk("a#1", 1, (1, 1), finish)))
    assert (record.status, record.frames, record.samples, record.wav_path) == (status, 1, HOP, None)
    assert wavs(writer) == []


def test_no_frame_is_empty_and_not_ok(writer: OutcomeWriter) -> None:
    """Goes red when an utterance without a sample counts as spoken."""
    record = writer.record(ended(chunk("a#1", frames=(0, 0), finish=Finish(FinishReason.STOP))))
    assert (record.status, record.frames, record.duration_s) == (RowStatus.EMPTY, 0, None)
    assert wavs(writer) == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_samples_that_are_not_finite_charge_their_row_alone(writer: OutcomeWriter, bad: float) -> None:
    """Goes red when NaN from an engine breaks the run, or becomes a silent WAV with status ok."""
    broken = chunk("a#1", finish=Finish(FinishReason.STOP))
    broken = replace(broken, pcm=np.array([0.1, bad, 0.1, 0.1], dtype=np.float32))
    record = writer.record(ended(broken))
    assert (record.status, record.error_code) == (RowStatus.FAILED, "non_finite")
    assert record.error_detail == "1 samples are not finite"
    assert wavs(writer) == []


def test_a_row_that_was_never_submitted_has_a_record_too(writer: OutcomeWriter) -> None:
    """Goes red when what is unknown of such a row becomes 0 instead of null with a reason."""
    record = writer.record(RowResult(Job(3, row("a", ""), 1), problem=RowError("empty_text", "the text is empty")))
    assert (record.status, record.error_code, record.row_index) == (RowStatus.INVALID, "empty_text", 3)
    assert [record.frames, record.submitted_s, record.finish_reason] == [None, None, None]
    assert record.frames_missing == "never submitted"


def test_a_row_without_a_clip_says_so(writer: OutcomeWriter) -> None:
    """Goes red when a missing clip is recorded as the current folder."""
    writer.plan = replace(PLAN, voice=RowClip())
    problem = RowError("reference_missing", "line 1 names no prompt wav")
    voice = writer.record(RowResult(Job(0, row("a"), 1), problem=problem)).voice
    assert isinstance(voice, ReferenceVoiceRecord)
    assert (voice.audio, voice.audio_sha256, voice.audio_sha256_missing) == ("", None, "the row names no clip")


def test_first_audio_is_the_first_sample_and_only_when_streaming(writer: OutcomeWriter) -> None:
    """Goes red when an empty chunk counts as audio, or audio taken whole has a time to first audio."""
    chunks = [
        replace(chunk("a#1", 0, (0, 0)), emitted_at_ns=1_000),
        replace(chunk("a#1", 1, (0, 1)), emitted_at_ns=2_000),
        replace(chunk("a#1", 2, (1, 2), Finish(FinishReason.STOP)), emitted_at_ns=3_000),
    ]

    def record(stream: bool) -> RequestRecord:
        writer.stream = stream
        return writer.record(ended(*chunks))

    assert record(stream=True).first_audio_s == pytest.approx(2e-6)
    whole = record(stream=False)
    assert (whole.first_audio_s, whole.first_audio_s_missing) == (None, "audio was taken whole")
    assert whole.finished_s == pytest.approx(3e-6)


def test_what_the_producer_counted_is_recorded_apart_from_what_arrived(writer: OutcomeWriter) -> None:
    """Goes red when frames_generated is read off the chunks, so that a lost tail can never show, or unknown is 0."""
    said = writer.record(ended(chunk("a#1", finish=Finish(FinishReason.STOP, frames_generated=3, frame_limit=9))))
    assert (said.frames, said.frames_generated, said.frame_limit) == (1, 3, 9)
    unsaid = writer.record(ended(chunk("a#1", finish=Finish(FinishReason.STOP))))
    assert (unsaid.frames_generated, unsaid.frames_generated_missing) == (None, "the engine does not say")
    assert (unsaid.frame_limit, unsaid.frame_limit_missing) == (None, "the engine does not say")


def test_every_chunk_has_its_trace_line(writer: OutcomeWriter) -> None:
    """Goes red when a chunk is missing in the trace, or loses its frames or its end."""
    chunks = [chunk("a#1"), chunk("a#1", 1, (1, 3)), chunk("a#1", 2, (3, 3), Finish(FinishReason.STOP))]
    traces = writer.traces(ended(*chunks))
    assert [(t.index, t.start_frame, t.end_frame, t.samples) for t in traces] == [
        (0, 0, 1, HOP),
        (1, 1, 3, 2 * HOP),
        (2, 3, 3, 0),
    ]
    assert [(t.terminal, t.finish_reason) for t in traces] == [(False, None), (False, None), (True, "stop")]
