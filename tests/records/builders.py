"""Valid records to change one thing in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ttsbench.records import (
    CheckpointRecord,
    CodeRevision,
    CorpusRecord,
    DrawSettings,
    EngineRecord,
    Hardware,
    NamedVoiceRecord,
    Placement,
    RequestRecord,
    RowCounts,
    RowStatus,
    RunManifest,
    RunSettings,
    RunStatus,
    SamplingSettings,
    canonical_sha256,
    combined_sha256,
    sha256_of,
)
from ttsbench.records.base import Sha256

DRAW = DrawSettings(do_sample=True, temperature=0.9, top_k=50, top_p=1.0)
SAMPLING = SamplingSettings(talker=DRAW, code_predictor=DRAW, repetition_penalty=1.05, min_frames=2)
FILES: dict[str, Sha256] = {"model.safetensors": sha256_of(b"weights")}
PROFILE: dict[str, Any] = {"engine": "fake", "max_num_seqs": 2}


def counts(expected: int, **ended: int) -> RowCounts:
    """Row counts; outcomes not named are 0."""
    names = ("ok", "length", "empty", "cancelled", "failed", "invalid")
    return RowCounts(expected=expected, **{name: ended.get(name, 0) for name in names})


def manifest(rows: int = 2, status: RunStatus = RunStatus.COMPLETE, locale: str = "en", **changes: Any) -> RunManifest:
    """A run of `rows` rows, all ok when complete."""
    fields: dict[str, Any] = {
        "tool_version": "0.1.0",
        "code": CodeRevision(revision="0" * 40, dirty=False, source_sha256=sha256_of(b"code")),
        "status": status,
        "created_at": datetime(2026, 11, 30, 12, tzinfo=UTC),
        "started_at": datetime(2026, 11, 30, 12, tzinfo=UTC),
        "ended_at": None,
        "ended_at_missing": "not looked at here",
        "profile": PROFILE,
        "profile_sha256": canonical_sha256(PROFILE),
        "corpus": CorpusRecord(
            name="mini",
            path="meta.lst",
            sha256=sha256_of(b"list"),
            locale=locale,
            format="seedtts-4",
            rows_in_list=rows,
            rows_expected=rows,
            selection="all",
        ),
        "checkpoint": CheckpointRecord(name="tiny", source="tiny", files=FILES, sha256=combined_sha256(FILES)),
        "engine": EngineRecord(
            name="fake",
            model="tiny",
            mode="fused",
            sample_rate_hz=24_000,
            hop_samples=1920,
            num_codebooks=16,
            max_num_seqs=2,
            max_model_len=512,
            determinism="seeded",
            device="cpu",
            dtype="float32",
            codec_dtype="float32",
            reports_frames=True,
            speakers=("ann",),
            languages=("english",),
            default_sampling=SAMPLING,
            default_text_layout="streaming",
            default_max_frames=256,
        ),
        "settings": RunSettings(
            voice=None,
            language="auto",
            text_layout="streaming",
            sampling=SAMPLING,
            seed=0,
            max_frames=256,
            concurrency=2,
            tracing=True,
            stream=True,
        ),
        "software": {"python": "3.11"},
        "hardware": Hardware(cpu_model="a CPU", cpu_cores=2, memory_bytes=1 << 33, gpus=()),
        "placement": Placement(cpu_affinity=(0, 1), environment={}),
        "counts": counts(rows, ok=rows if status is RunStatus.COMPLETE else 0),
        "sitting": 0,
        "resumed_rows": 0,
        "wall_s": 4.0,
        "audio_s": 2.0,
        "audio_s_per_wall_s": 0.5,
    }
    return RunManifest(**fields | changes)


def request(row_index: int = 0, text: str = "one two three", **changes: Any) -> RequestRecord:
    """A row that went well: one second of audio in wav/<row>.wav."""
    fields: dict[str, Any] = {
        "row_index": row_index,
        "utterance_id": f"u{row_index}",
        "request_id": f"r{row_index}",
        "attempt": 1,
        "sitting": 0,
        "status": RowStatus.OK,
        "text": text,
        "text_sha256": sha256_of(text.encode()),
        "voice": NamedVoiceRecord(speaker="ann", instruct=None),
        "language_requested": "auto",
        "language_effective": "english",
        "seed": 0,
        "max_frames": 256,
        "frame_limit": 256,
        "frames_generated": 13,
        "frames": 13,
        "samples": 24_000,
        "sample_rate_hz": 24_000,
        "duration_s": 1.0,
        "wav_path": f"wav/u{row_index}.wav",
        "wav_sha256": sha256_of(b"wav"),
        "clipped_samples": 0,
        "chunks": 13,
        "finish_reason": "stop",
        "submitted_s": 0.0,
        "first_audio_s": 0.5,
        "finished_s": 1.0,
        "wav_written_s": 1.25,
    }
    return RequestRecord(**fields | changes)


def request_without_audio(
    row_index: int, status: RowStatus, text: str = "one two three", **changes: Any
) -> RequestRecord:
    """A row that ended without a sample."""
    reason = f"the row is {status}"
    finish = {RowStatus.EMPTY: "stop", RowStatus.CANCELLED: "cancelled", RowStatus.FAILED: "failed"}.get(status)
    faulty = status in (RowStatus.FAILED, RowStatus.INVALID)
    fields: dict[str, Any] = {
        "status": status,
        "error_code": "broken" if faulty else None,
        "error_detail": "it broke" if faulty else None,
        "frames_generated": 0,
        "frames": 0,
        "samples": 0,
        "chunks": 0,
        "finish_reason": finish,
        "finish_reason_missing": None if finish else reason,
    }
    for name in ("sample_rate_hz", "duration_s", "wav_path", "wav_sha256", "first_audio_s", "wav_written_s"):
        fields |= {name: None, f"{name}_missing": reason}
    return request(row_index, text, **fields | changes)
