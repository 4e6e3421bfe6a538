"""`synth`: everything is checked first, and what is written is complete and valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.cli.harness import (
    BASE,
    CUSTOM_VOICE,
    Ended,
    check_run_folder,
    outcomes,
    refuse_writing,
    ttsbench,
    write_list,
)
from ttsbench.records import read_manifest, read_requests, read_trace
from ttsbench.records.schema import schema_name

SCHEMAS = Path(__file__).parents[2] / "results_schema"


def synth(list_path: object, out: Path, model: object, *options: object) -> Ended:
    return ttsbench("synth", "--set", list_path, "--model", model, "--out", out, *options)


@pytest.fixture
def short_list(tmp_path: Path) -> Path:
    return write_list(tmp_path / "en" / "meta.lst", "a|Hello there.", "b|Why?", "c|Go on.", "d| ")


def test_every_fault_of_every_input_is_told_at_once(tmp_path: Path) -> None:
    """Goes red when one kind of fault hides another, or anything is made before all is known to be right."""
    bad = write_list(
        tmp_path / "en" / "meta.lst",
        "a/b|words|clip.wav|A slash.|human.wav",
        "same|words|clip.wav|First.|human.wav",
        "same|words|clip.wav|Second.|human.wav",
        "short|words|clip.wav|Four fields.",
    )
    out = tmp_path / "run"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    ended = synth(bad, out, CUSTOM_VOICE, "--voice", "viviann", "--language", "sp", "--override", "max_nm_seqs=4")
    assert ended.code == 2
    assert "7 problems" in ended.err
    for fault in (
        f"{bad}:1: expected an id that is safe as a file name, at most 200 bytes, got 'a/b', with a path separator",
        f"{bad}:3: expected ids that are unique, got 'same' here and 'same' on line 2",
        f"{bad}:4: expected 5 fields",
        f"--out {out}: expected a folder that is new or empty",
        "expected one of eric, serena, vivian, got 'viviann'; did you mean 'vivian'?",
        "expected one of auto, chinese, english, german, got 'sp'",
        "did you mean 'max_num_seqs'?",
    ):
        assert fault in ended.err
    assert [path.name for path in out.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (CUSTOM_VOICE, ("--set", "no-such.lst"), "no such file or folder"),
        (CUSTOM_VOICE, ("--x-vector-only",), "--x-vector-only: expected a Base checkpoint"),
        (CUSTOM_VOICE, ("--text-layout", "whole"), "'whole' is not one of"),
        (CUSTOM_VOICE, ("--first", 9), "first: expected 1 to 4 rows, got 9"),
        (CUSTOM_VOICE, ("--override", "max_num_seqs=600"), "max_num_batched_tokens: expected at least 600"),
        (
            CUSTOM_VOICE,
            ("--override", "block_size=8", "--override", "block_size=16"),
            "expected one value, got '8' and",
        ),
        (CUSTOM_VOICE, ("--resume",), "the folder of a run to resume"),
        (CUSTOM_VOICE, ("--profile", "qwen3_tts_fused_cp"), "did you mean 'qwen3_tts_fused_cpu'?"),
        (CUSTOM_VOICE, ("--strict",), "en/meta.lst:4: expected a row that can be spoken, got empty_text"),
        (BASE, (), "a list with prompt clips, since the checkpoint clones voices"),
        ("no-such-model", (), "a checkpoint folder, got 'no-such-model'"),
    ],
)
def test_what_cannot_run_is_refused_before_any_work(
    tmp_path: Path, short_list: Path, model: object, options: tuple[object, ...], words: str
) -> None:
    """Goes red when a fault shows only in the middle of a run, or ends in a traceback."""
    ended = synth(short_list, tmp_path / "run", model, *options)
    assert ended.code == 2
    assert words in ended.err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_invalid_input(tmp_path: Path, short_list: Path) -> None:
    """Goes red when a bad --out ends in a traceback, as if the engine had broken."""
    (tmp_path / "file").write_text("")
    ended = synth(short_list, tmp_path / "file" / "run", CUSTOM_VOICE, "--max-frames", 2)
    assert ended.code == 2
    assert "expected a folder that can be written to" in ended.err


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_that_cannot_be_written_to_is_found_before_the_model_is_read(
    tmp_path: Path, short_list: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    """Goes red when minutes of loading come before the news that nothing can be kept."""
    out = tmp_path / "run"
    if resume:
        assert synth(short_list, out, CUSTOM_VOICE, "--max-frames", 2).code == 4
    refuse_writing(monkeypatch)
    monkeypatch.setattr("ttsbench.experiment.prepare.NativeEngine", lambda *_: pytest.fail("the model was read"))
    ended = synth(short_list, out, CUSTOM_VOICE, "--max-frames", 2, *(["--resume"] if resume else []))
    assert ended.code == 2
    assert f"--out {out}: expected a folder that can be written to, got no permission" in ended.err


@pytest.mark.parametrize("options", [(), ("--resume",)])
def test_a_run_killed_before_its_manifest_is_told_what_to_do(
    tmp_path: Path, short_list: Path, options: tuple[str, ...]
) -> None:
    """Goes red when the hint with --resume is to leave it out, and the one without it leads nowhere either."""
    (tmp_path / "run" / "wav").mkdir(parents=True)
    (tmp_path / "run" / "requests.jsonl").touch()
    ended = synth(short_list, tmp_path / "run", CUSTOM_VOICE, *options)
    assert ended.code == 2
    assert "delete the folder, or give another" in ended.err
    assert "--resume out" not in ended.err


def schema(kind: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((SCHEMAS / f"{schema_name(kind)}.schema.json").read_text(encoding="utf-8"))
    return read


def test_records_are_valid_and_complete(tmp_path: Path, short_list: Path, terse_custom_voice: Path) -> None:
    """Goes red when a field leaves its schema, a row has no record, a WAV no row, or a trace line is off."""
    run = tmp_path / "输出 dir"
    ended = synth(short_list, run, terse_custom_voice, "--seed", 5, "--voice", " Vivian ")
    assert ended.code == 4
    jsonschema.validate(json.loads((run / "run.json").read_text(encoding="utf-8")), schema("run"))
    for kind, name in (("request", "requests.jsonl"), ("trace", "trace.jsonl")):
        lines = (run / name).read_text(encoding="utf-8").splitlines()
        assert lines
        for line in lines:
            jsonschema.validate(json.loads(line), schema(kind))
    check_run_folder(run)
    manifest, rows = read_manifest(run), read_requests(run).rows
    assert [rows[i].utterance_id for i in range(4)] == ["a", "b", "c", "d"]
    assert (manifest.settings.seed, manifest.counts.ok, manifest.counts.invalid) == (5, 3, 1)
    assert manifest.audio_s == pytest.approx(sum(r.duration_s or 0 for r in rows.values()))
    assert ended.out == f"{run}\n"
    assert "d: invalid, empty_text: the text is empty" in ended.err
    assert "3 of 4 rows ok" in ended.err


def test_streamed_and_whole_audio_are_the_same(tmp_path: Path, short_list: Path) -> None:
    """Goes red when the last part of an utterance is not flushed, or a chunk edge changes a sample."""
    for mode in ("stream", "full"):
        chunks = ("--override", "codec_chunk_frames=4", "--override", "talker_stream_first_audio=true")
        synth(short_list, tmp_path / mode, CUSTOM_VOICE, "--max-frames", 9, "--seed", 3, f"--{mode}", *chunks)
        check_run_folder(tmp_path / mode)
    streamed, whole = outcomes(tmp_path / "stream"), outcomes(tmp_path / "full")
    assert streamed == whole
    assert sum(data is not None for *_, data in whole.values()) == 3
    spans = [(t.start_frame, t.end_frame) for t in read_trace(tmp_path / "stream").records if t.utterance_id == "a"]
    assert spans == [(0, 1), (1, 5), (5, 9)]
    assert all(r.chunks <= 1 for r in read_requests(tmp_path / "full").rows.values())


def test_a_profile_reaches_the_engine_and_the_records(tmp_path: Path, short_list: Path) -> None:
    """Goes red when an override is dropped on its way, or 0 is taken for "not set"."""
    overrides = {
        "max_num_seqs": 2,
        "default_sampling_params.top_k": 0,
        "default_sampling_params.min_tokens": 0,
        "subtalker_sampling_params.do_sample": "false",
        "default_sampling_params.max_tokens": 3,
    }
    pairs = [piece for key, value in overrides.items() for piece in ("--override", f"{key}={value}")]
    synth(short_list, tmp_path / "run", CUSTOM_VOICE, *pairs)
    manifest = read_manifest(tmp_path / "run")
    sampling = manifest.settings.sampling
    assert (sampling.talker.top_k, sampling.min_frames, sampling.code_predictor.do_sample) == (0, 0, False)
    assert (manifest.settings.max_frames, manifest.settings.concurrency, manifest.engine.max_num_seqs) == (3, 2, 2)
    assert manifest.profile["max_num_seqs"] == 2
    assert all((r.frames or 0) <= 3 for r in read_requests(tmp_path / "run").rows.values())


def test_the_text_layout_is_the_option_then_the_profile_then_the_checkpoint(tmp_path: Path, short_list: Path) -> None:
    """Goes red when `_plan` forgets `--text-layout`, ranks it below the profile, or ignores the checkpoint's default.

    The seed is the same, so what differs comes from the layout alone; the toy's own default is non_streaming.
    """
    profile = ("--override", "text_layout=streaming")
    cases: dict[str, tuple[tuple[str, ...], str]] = {
        "none": ((), "non_streaming"),
        "option": (("--text-layout", "streaming"), "streaming"),
        "profile": (profile, "streaming"),
        "both": ((*profile, "--text-layout", "non_streaming"), "non_streaming"),
    }
    spoken = {}
    for name, (options, layout) in cases.items():
        run = tmp_path / name
        ended = synth(short_list, run, CUSTOM_VOICE, "--max-frames", 4, "--seed", 3, *options)
        assert ended.code == 4, ended.err
        assert read_manifest(run).settings.text_layout == layout
        spoken[name] = outcomes(run)
    assert spoken["none"] == spoken["both"]
    assert spoken["option"] == spoken["profile"]
    assert all(spoken["none"][row] != spoken["option"][row] for row in "abc")


def test_ids_outside_ascii_name_their_files(tmp_path: Path) -> None:
    """Goes red when an id is changed on its way to a file name or a record."""
    names = ["测试-1", "é☃", "a b"]
    made = write_list(tmp_path / "zh" / "meta.lst", *(f"{name}|Hi." for name in names))
    assert synth(made, tmp_path / "run", CUSTOM_VOICE, "--max-frames", 2).code == 4
    assert {path.name for path in (tmp_path / "run" / "wav").iterdir()} == {f"{name}.wav" for name in names}
    check_run_folder(tmp_path / "run")
