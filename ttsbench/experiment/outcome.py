"""One row's chunks become its WAV, its trace and its record, in that order: a record means that the rest is there.

Only an utterance that came to an end gets a WAV. What a cancelled or failed row had until then stays in its trace, so a
file under a final name always holds a whole utterance.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from ttsbench.core import FinishReason, ReferenceVoice, Voice, VoiceDescription
from ttsbench.corpus import CorpusRow
from ttsbench.experiment.drive import RowResult
from ttsbench.experiment.rows import RowClip, RowPlan, row_seed
from ttsbench.records import (
    DescribedVoiceRecord,
    NamedVoiceRecord,
    ReferenceVoiceRecord,
    RequestRecord,
    RowStatus,
    RunFolder,
    TraceRecord,
    VoiceRecord,
    sha256_of,
)
from ttsbench.records.wav import count_clipped, to_pcm16, write_wav

NOT_SUBMITTED = "never submitted"
NO_AUDIO = "no audio arrived"
UNSAID = "the engine does not say"


class OutcomeWriter:
    """Turns results into records of one sitting whose clock starts at `origin_ns`."""

    def __init__(self, folder: RunFolder, plan: RowPlan, effective_language: str, sitting: int, stream: bool) -> None:
        self.folder = folder
        self.plan = plan
        self.effective_language = effective_language
        self.sitting = sitting
        self.stream = stream
        self.origin_ns = time.monotonic_ns()

    def traces(self, result: RowResult) -> list[TraceRecord]:
        """One trace record per chunk."""
        return [
            TraceRecord(
                row_index=result.job.index,
                utterance_id=result.job.row.utterance_id,
                attempt=result.job.attempt,
                index=chunk.index,
                emitted_at_ns=chunk.emitted_at_ns,
                start_frame=chunk.frames[0],
                end_frame=chunk.frames[1],
                context_frames=chunk.context_frames,
                context_frames_missing=None if chunk.context_frames is not None else UNSAID,
                chunk_target=chunk.chunk_target,
                chunk_target_missing=None if chunk.chunk_target is not None else UNSAID,
                samples=len(chunk.pcm),
                sample_rate_hz=chunk.sample_rate_hz,
                terminal=chunk.final,
                reason=chunk.reason.value if chunk.reason else None,
                reason_missing=None if chunk.reason else UNSAID,
                finish_reason=chunk.finish.reason.value if chunk.finish else None,
            )
            for chunk in result.chunks
        ]

    def record(self, result: RowResult) -> RequestRecord:
        """Write the row's WAV, if it has one, and describe what happened."""
        pcm = np.concatenate([c.pcm for c in result.chunks]) if result.chunks else np.zeros(0, dtype=np.float32)
        status, code, detail = _status(result, pcm)
        keeps_wav = status in (RowStatus.OK, RowStatus.LENGTH)
        row, job = result.job.row, result.job
        return RequestRecord(
            row_index=job.index,
            utterance_id=row.utterance_id,
            request_id=result.request.id if result.request else f"{row.utterance_id}#{job.attempt}",
            attempt=job.attempt,
            sitting=self.sitting,
            status=status,
            error_code=code,
            error_detail=detail,
            text=row.text,
            text_sha256=sha256_of(row.text.encode()),
            voice=voice_record(self.plan.voice, row),
            language_requested=self.plan.language,
            language_effective=self.effective_language,
            seed=row_seed(self.plan.seed, row.utterance_id),
            max_frames=self.plan.max_frames,
            **self._audio_fields(result, pcm),
            **self._time_fields(result, len(pcm) > 0),
            **(self._wav_fields(row.utterance_id, pcm, result) if keeps_wav else _no_wav(f"status {status.value}")),
        )

    def _audio_fields(self, result: RowResult, pcm: np.ndarray) -> dict[str, Any]:
        rate = result.chunks[-1].sample_rate_hz if len(pcm) else None
        final = result.chunks[-1].finish if result.chunks else None
        generated, limit = (final.frames_generated, final.frame_limit) if final else (None, None)
        unsaid = UNSAID if final else NOT_SUBMITTED
        return {
            "frame_limit": limit,
            "frame_limit_missing": unsaid if limit is None else None,
            "frames_generated": generated,
            "frames_generated_missing": unsaid if generated is None else None,
            "frames": result.chunks[-1].frames[1] if result.chunks else None,
            "frames_missing": None if result.chunks else NOT_SUBMITTED,
            "samples": len(pcm),
            "sample_rate_hz": rate,
            "sample_rate_hz_missing": None if rate else NO_AUDIO,
            "duration_s": len(pcm) / rate if rate else None,
            "duration_s_missing": None if rate else NO_AUDIO,
            "chunks": sum(len(c.pcm) > 0 for c in result.chunks),
            "finish_reason": final.reason.value if final else None,
            "finish_reason_missing": None if final else NOT_SUBMITTED,
        }

    def _time_fields(self, result: RowResult, has_audio: bool) -> dict[str, Any]:
        submitted, finished = result.submitted_at_ns, result.chunks[-1].emitted_at_ns if result.chunks else None
        first = next((c.emitted_at_ns for c in result.chunks if len(c.pcm)), None) if self.stream else None
        whole = "audio was taken whole" if has_audio else NO_AUDIO
        return {
            "submitted_s": self._seconds(submitted),
            "submitted_s_missing": None if submitted is not None else NOT_SUBMITTED,
            "first_audio_s": self._seconds(first),
            "first_audio_s_missing": None if first is not None else whole,
            "finished_s": self._seconds(finished),
            "finished_s_missing": None if finished is not None else NOT_SUBMITTED,
        }

    def _wav_fields(self, utterance_id: str, pcm: np.ndarray, result: RowResult) -> dict[str, Any]:
        path = self.folder.wav / f"{utterance_id}.wav"
        data = write_wav(path, to_pcm16(pcm), result.chunks[-1].sample_rate_hz)
        return {
            "wav_path": path.relative_to(self.folder.path).as_posix(),
            "wav_sha256": sha256_of(data),
            "clipped_samples": count_clipped(pcm),
            "wav_written_s": self._seconds(time.monotonic_ns()),
        }

    def _seconds(self, at_ns: int | None) -> float | None:
        return None if at_ns is None else (at_ns - self.origin_ns) / 1e9


def _status(result: RowResult, pcm: np.ndarray) -> tuple[RowStatus, str | None, str | None]:
    """Status, error code and detail of a result."""
    if result.problem is not None:
        return RowStatus.INVALID, result.problem.code, str(result.problem)
    finish = result.chunks[-1].finish
    if finish is None:
        raise ValueError(f"{result.job.row.utterance_id}: the last chunk is not final")
    if not np.isfinite(pcm).all():
        return RowStatus.FAILED, "non_finite", f"{np.count_nonzero(~np.isfinite(pcm))} samples are not finite"
    match finish.reason:
        case FinishReason.FAILED:
            return RowStatus.FAILED, finish.code or "engine_failed", finish.detail or None
        case FinishReason.CANCELLED:
            return RowStatus.CANCELLED, None, None
        case FinishReason.LENGTH:
            return RowStatus.LENGTH, None, None
        case FinishReason.STOP:
            return (RowStatus.OK if len(pcm) else RowStatus.EMPTY), None, None


def _no_wav(why: str) -> dict[str, Any]:
    return {
        "wav_path": None,
        "wav_path_missing": why,
        "wav_sha256": None,
        "wav_sha256_missing": why,
        "clipped_samples": 0,
        "wav_written_s": None,
        "wav_written_s_missing": why,
    }


def voice_record(voice: Voice | RowClip, row: CorpusRow | None = None) -> VoiceRecord:
    """A voice as a record; a RowClip takes its clip and words from `row`."""
    if isinstance(voice, RowClip):
        if row is None:
            raise ValueError("a voice per row needs its row")
        return _clip_record(row.prompt_audio, row.prompt_text if voice.in_context else None)
    if isinstance(voice, ReferenceVoice):
        return _clip_record(voice.audio, voice.transcript)
    if isinstance(voice, VoiceDescription):
        return DescribedVoiceRecord(instruct=voice.instruct)
    return NamedVoiceRecord(speaker=voice.speaker, instruct=voice.instruct)


def _clip_record(path: Path | None, transcript: str | None) -> ReferenceVoiceRecord:
    digest, why = (None, "the row names no clip") if path is None else _clip_hash(path)
    audio = "" if path is None else str(path)
    return ReferenceVoiceRecord(audio=audio, audio_sha256=digest, audio_sha256_missing=why, transcript=transcript)


def _clip_hash(path: Path) -> tuple[str | None, str | None]:
    try:
        return sha256_of(path.read_bytes()), None
    except OSError as error:
        return None, f"{error.strerror or error}"
