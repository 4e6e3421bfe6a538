"""What a record accepts, and what it refuses."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from tests.records.builders import counts, manifest, request, request_without_audio
from ttsbench.core import EngineInfo, SamplingParams, TextLayout
from ttsbench.records import (
    Coverage,
    DrawSettings,
    EngineRecord,
    Heading,
    Record,
    RequestRecord,
    RowStatus,
    RunManifest,
    RunStatus,
)
from ttsbench.records.schema import KINDS


def test_engine_record_holds_what_an_engine_says_field_by_field() -> None:
    """Red when core.EngineInfo gains, loses or renames a field, or when a value is changed on the way."""
    info = EngineInfo(
        name="native",
        model="tiny",
        mode="fused",
        sample_rate_hz=24_000,
        hop_samples=1920,
        num_codebooks=16,
        max_num_seqs=8,
        max_model_len=1024,
        determinism="seeded",
        device="cpu",
        dtype="float32",
        codec_dtype="float32",
        reports_frames=True,
        speakers=("ann",),
        languages=("english",),
        default_sampling=SamplingParams(),
        default_text_layout=TextLayout.STREAMING,
        default_max_frames=2048,
    )
    said = dataclasses.asdict(info)
    assert EngineRecord.model_validate(said).model_dump() == said


@pytest.mark.parametrize("made", [manifest(), request(), request_without_audio(1, RowStatus.INVALID)])
def test_a_record_survives_json(made: Record) -> None:
    """Red when a field is coerced, rounded or lost (try dropping strict, or a tuple field becoming a list)."""
    assert type(made).model_validate_json(made.model_dump_json()) == made


def test_every_field_has_a_line_of_doc() -> None:
    """Red when a docstring under a field is deleted."""
    models = Record.__subclasses__()
    assert set(KINDS.values()) < set(models)
    fields = [(model.__name__, name, field) for model in models for name, field in model.model_fields.items()]
    assert [(model, name) for model, name, field in fields if not field.description] == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first_audio_s": None}, "first_audio_s is null without a reason"),
        ({"first_audio_s_missing": "no audio"}, "present, yet a reason says it is missing"),
        ({"first_audio_s": None, "first_audio_s_missing": ""}, "at least 1 character"),
        ({"seed": "7"}, "valid integer"),
        ({"duration_s": float("nan")}, "finite number"),
        ({"sed": 42}, "Extra inputs"),
        ({"samples": -1}, "greater than or equal to 0"),
        ({"duration_s": 2.0}, "not samples / sample_rate_hz"),
        ({"text_sha256": "0" * 64}, "not the hash of text"),
        ({"first_audio_s": 3.0}, "out of order"),
        ({"finish_reason": "length"}, "does not go with finish reason"),
        ({"error_code": "odd"}, "cannot have an error_code"),
        ({"wav_path": "../u0.wav"}, "inside the run folder"),
        ({"wav_path": "/wav/u0.wav"}, "inside the run folder"),
        ({"wav_path": None, "wav_path_missing": "lost"}, "needs audio"),
    ],
)
def test_a_request_record_refuses_what_does_not_agree(changes: dict[str, Any], message: str) -> None:
    """Red when the validator behind the message is removed."""
    with pytest.raises(ValidationError, match=message):
        request(**changes)


def test_a_request_record_holds_what_an_engine_did_wrong() -> None:
    """Too few frames and half a hop of samples are for the audit to find: red when the record refuses them."""
    odd = request(
        status=RowStatus.LENGTH, finish_reason="length", max_frames=20, frames=3, samples=2401, duration_s=2401 / 24_000
    )
    assert odd.frames == 3


def test_a_failed_row_may_have_finished_cleanly() -> None:
    """The engine stopped, then the disk was full."""
    row = request(status=RowStatus.FAILED, error_code="disk_full", error_detail="No space left on device")
    assert row.finish_reason == "stop"


@pytest.mark.parametrize("status", [RowStatus.EMPTY, RowStatus.INVALID, RowStatus.CANCELLED, RowStatus.FAILED])
def test_a_row_without_audio_has_a_record_in_every_outcome(status: RowStatus) -> None:
    """Red when an outcome cannot be recorded."""
    assert request_without_audio(0, status).samples == 0


def test_counts_must_add_up() -> None:
    """Red when any outcome is left out of `recorded`, or a complete run may miss rows."""
    outcomes = ("ok", "length", "empty", "cancelled", "failed", "invalid")
    assert counts(6, **dict.fromkeys(outcomes, 1)).recorded == 6
    for outcome in outcomes:
        with pytest.raises(ValidationError, match="do not add up"):
            counts(1, **{outcome: 2})
    with pytest.raises(ValidationError, match="records every row: 1 recorded, 2 expected"):
        manifest(rows=2, counts=counts(2, ok=1))
    with pytest.raises(ValidationError, match="counts expect 3 rows, the corpus 2"):
        manifest(rows=2, counts=counts(3, ok=3))
    assert manifest(rows=2, status=RunStatus.INTERRUPTED, counts=counts(2, ok=1)).counts.recorded == 1


def test_a_manifest_notices_settings_changed_after_the_fact() -> None:
    """Red when a stored hash is not checked against what it stands for."""
    with pytest.raises(ValidationError, match="not the hash of profile"):
        manifest(profile={"engine": "native"})
    checkpoint = manifest().checkpoint
    assert checkpoint is not None
    with pytest.raises(ValidationError, match="not the combined hash"):
        checkpoint.revised(files={})


def test_throughput_is_the_ratio_of_what_stands_beside_it() -> None:
    """Red when a throughput can be stored that its own audio and wall seconds do not give."""
    with pytest.raises(ValidationError, match="not audio_s / wall_s"):
        manifest(audio_s_per_wall_s=2.0)
    with pytest.raises(ValidationError, match="above zero"):
        manifest(wall_s=0.0)


def test_times_are_in_utc() -> None:
    """Red when a local time is stored as if it were UTC."""
    with pytest.raises(ValidationError, match="UTC"):
        manifest(started_at=datetime(2026, 11, 30, tzinfo=timezone(timedelta(hours=1))))
    with pytest.raises(ValidationError, match="timezone"):
        manifest(started_at=datetime(2026, 11, 30))


def test_revised_validates_and_knows_its_fields() -> None:
    """Red when `revised` is pydantic's model_copy, which checks nothing."""
    running = manifest(status=RunStatus.RUNNING)
    assert running.revised(status=RunStatus.BROKEN).status is RunStatus.BROKEN
    with pytest.raises(ValidationError, match="records every row"):
        running.revised(status=RunStatus.COMPLETE)
    with pytest.raises(ValueError, match="no field statsu"):
        running.revised(statsu="complete")


def test_zero_is_a_value() -> None:
    """Seed 0 and top_k 0 are settings like any other: red when 0 reads as unset."""
    assert request(seed=0).seed == 0
    assert DrawSettings(do_sample=True, temperature=1.0, top_k=0, top_p=1.0).top_k == 0
    assert RequestRecord.model_fields["seed"].is_required()
    assert RunManifest.model_fields["audio_s"].is_required()


def test_every_row_of_a_coverage_stands_under_its_heading() -> None:
    """Red when a heading is left out of the sum, or causes of one heading are counted under another."""
    rows = [
        (Heading.MEASURED, None), (Heading.FAILED, "silent"), (Heading.FAILED, "failed"), (Heading.FAILED, "silent"),
        (Heading.MISSING, "missing_record"), (Heading.UNSCORED, "asr_error"), (Heading.MEASURED, None),
    ]  # fmt: skip
    made = Coverage.of(rows)
    assert (made.rows_expected, made.rows_measured, made.rows_failed, made.rows_missing, made.rows_unscored) == (
        7, 2, 3, 1, 1,
    )  # fmt: skip
    assert (made.failed_by_cause, made.unscored_by_cause) == ({"failed": 1, "silent": 2}, {"asr_error": 1})
    assert Coverage.of([]).complete
