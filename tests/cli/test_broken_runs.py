"""Runs that were killed, interrupted or starved of disk are readable, and resume to what an unbroken run gives.

Byte equality is asked for at determinism `batch_invariant`, the level that promises it whatever runs beside a row.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import CUSTOM_VOICE, Ended, check_run_folder, outcomes, ttsbench, write_list
from ttsbench.experiment.synthesis import Synthesis
from ttsbench.records import RowStatus, RunStatus, read_manifest, read_requests, read_trace

ROOT = Path(__file__).parents[2]
ROWS = 7
RECORD = ("ttsbench.records.writer", "JsonlWriter.append")
"""The last thing that happens to a row: its WAV and trace are on disk, its record is not."""
TRACES = ("ttsbench.experiment.outcome", "OutcomeWriter.traces")
"""The row's WAV is on disk, neither trace nor record are."""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a list of rows, the last but one of which cannot be spoken."""
    folder = tmp_path_factory.mktemp("broken")
    write_list(folder / "en" / "meta.lst", *(f"u{i}|{'Row ' + str(i) if i != ROWS - 2 else ' '}" for i in range(ROWS)))
    return folder


def arguments(work: Path, out: Path, *more: object) -> list[str]:
    fixed = ("--max-frames", 8, "--seed", 11, "--concurrency", 3, "--override", "determinism=batch_invariant")
    given = ("synth", "--set", work / "en" / "meta.lst", "--model", CUSTOM_VOICE, "--out", out, *fixed, *more)
    return [str(argument) for argument in given]


def synth(work: Path, out: Path, *more: object) -> Ended:
    return ttsbench(*arguments(work, out, *more))


@pytest.fixture(scope="module")
def unbroken(work: Path) -> dict[str, Any]:
    """What a run that nothing happened to has."""
    assert synth(work, work / "unbroken").code == 4
    check_run_folder(work / "unbroken")
    return outcomes(work / "unbroken")


def start(place: tuple[str, str], call: int, command: list[str]) -> subprocess.Popen[str]:
    """A real process that waits before the given call."""
    script = [sys.executable, str(Path(__file__).with_name("paused.py")), *place, str(call), "--", *command]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(script, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def wait_for_pause(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == "paused\n", f"{line!r} {process.communicate()[1]}"


def killed_at(place: tuple[str, str], call: int, command: list[str]) -> None:
    process = start(place, call, command)
    wait_for_pause(process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_a_run_killed_twice_ends_as_an_unbroken_one(work: Path, unbroken: dict[str, Any]) -> None:
    """Goes red when a record is written before its WAV, when a resumed row draws other noise or when orphans stay.

    First kill: between a WAV and its record. Second kill, of the resumed run: between a trace and its record.
    """
    out = work / "killed"
    killed_at(TRACES, 3, arguments(work, out))
    assert read_manifest(out).status is RunStatus.RUNNING
    assert len(read_requests(out).rows) == 2
    assert len(list((out / "wav").iterdir())) == 3, "this kill was to leave a WAV without a record"
    killed_at(RECORD, 3, arguments(work, out, "--resume"))
    done = {record.row_index for record in read_requests(out).attempts}
    assert {line.row_index for line in read_trace(out).records} - done, (
        "this kill was to leave a trace without a record"
    )
    (out / "wav" / ".00ff00ff00ff00ff.tmp").write_bytes(b"RIFF")
    assert synth(work, out, "--resume").code == 4
    assert outcomes(out) == unbroken
    check_run_folder(out)
    manifest = read_manifest(out)
    assert (manifest.status, manifest.sitting, manifest.resumed_rows) == (RunStatus.COMPLETE, 2, len(done))
    assert manifest.wall_s is None
    assert [record.attempt for record in read_requests(out).attempts] == [1] * ROWS


def test_a_complete_run_is_left_as_it_is(work: Path, unbroken: dict[str, Any]) -> None:
    """Goes red when resuming a complete run speaks a row again or rewrites a file."""
    out = work / "unbroken"
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    ended = synth(work, out, "--resume")
    assert ended.code == 4
    assert "nothing to do" in ended.err
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_a_run_without_its_end_is_closed_on_resuming(work: Path, unbroken: dict[str, Any], tmp_path: Path) -> None:
    """Goes red when a run killed after its last record cannot be completed, or its seed has to be typed again."""
    out = tmp_path / "run"
    synth(work, out)
    text = (out / "run.json").read_text(encoding="utf-8").replace('"status": "complete"', '"status": "running"')
    (out / "run.json").write_text(text, encoding="utf-8")
    command = arguments(work, out, "--resume")
    seed_at = command.index("--seed")
    assert ttsbench(*command[:seed_at], *command[seed_at + 2 :]).code == 4
    assert read_manifest(out).status is RunStatus.COMPLETE
    assert read_manifest(out).settings.seed == 11
    assert outcomes(out) == unbroken


def test_other_settings_are_refused_with_every_difference(work: Path, unbroken: dict[str, Any], tmp_path: Path) -> None:
    """Goes red when rows made under different settings can end up in one run, or one difference hides another."""
    out = work / "unbroken"
    before = (out / "run.json").read_bytes()
    other_list = write_list(tmp_path / "en" / "meta.lst", *(f"u{i}|Other words" for i in range(ROWS)))
    changes = ("--seed", 12, "--voice", "eric", "--override", "codec_chunk_frames=3", "--full", "--language", "english")
    inputs = ("--set", other_list, "--model", CUSTOM_VOICE.with_name("toy-custom-voice-0b6"))
    ended = synth(work, out, "--resume", *changes, "--text-layout", "streaming", *inputs)
    assert ended.code == 2
    for name in (
        "settings.seed: expected 11, got 12",
        "settings.voice.speaker: expected 'serena', got 'eric'",
        "settings.language: expected 'auto', got 'english'",
        "settings.text_layout: expected 'non_streaming', got 'streaming'",
        "settings.stream: expected True, got False",
        "profile.codec_chunk_frames: expected 1, got 3",
        "corpus.sha256",
        "checkpoint.sha256",
    ):
        assert f"run.json {name}" in ended.err
    assert "corpus.path" not in ended.err
    assert "checkpoint.files" not in ended.err
    assert ended.err.count("resume under the same settings") == 1
    assert ended.err.rstrip().endswith("resume under the same settings, or use another --out")
    assert (out / "run.json").read_bytes() == before


def test_a_running_run_is_not_resumed_by_another_process(work: Path, unbroken: dict[str, Any], tmp_path: Path) -> None:
    """Goes red when a second process may write into a folder, or clean it up, while the first one is at work."""
    out = tmp_path / "run"
    inside: list[Ended] = []

    def resume_meanwhile(self: Synthesis, *rest: Any) -> Any:
        if not inside:
            inside.append(synth(work, out, "--resume"))
        return speak(self, *rest)

    speak = Synthesis._speak
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Synthesis, "_speak", resume_meanwhile)
        assert synth(work, out).code == 4
    assert inside[0].code == 2
    assert "expected a run that nobody is writing to" in inside[0].err
    assert read_manifest(out).sitting == 0
    assert outcomes(out) == unbroken


def test_ctrl_c_once_and_twice(work: Path, unbroken: dict[str, Any]) -> None:
    """Goes red when Ctrl-C loses rows in flight, ends with another code than 130, or leaves a folder that cannot go on.

    Once: what is in flight is recorded as cancelled. Twice, in the resumed run: the process breaks off at once.
    """
    out = work / "interrupted"
    process = start(RECORD, 2, arguments(work, out))
    wait_for_pause(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate("\n", timeout=60)
    assert process.returncode == 130, err
    assert "stopping" in err
    assert "--resume" in err
    check_run_folder(out)
    manifest, records = read_manifest(out), read_requests(out).rows.values()
    cancelled = [record for record in records if record.status is RowStatus.CANCELLED]
    assert manifest.status is RunStatus.INTERRUPTED
    assert 1 <= len(cancelled) <= 2, "three rows were in flight, one of them ended"
    assert manifest.counts.cancelled == len(cancelled)
    assert manifest.counts.recorded < ROWS

    process = start(RECORD, 2, arguments(work, out, "--resume"))
    wait_for_pause(process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "stopping" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out_text, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out_text == ""
    assert "go on with the same command and --resume" in err
    assert read_manifest(out).status is RunStatus.INTERRUPTED
    assert len(read_requests(out).attempts) == len(records) + 1

    assert synth(work, out, "--resume").code == 4
    assert outcomes(out) == unbroken
    check_run_folder(out)
    again = {record.utterance_id for record in read_requests(out).attempts if record.attempt > 1}
    assert again == {record.utterance_id for record in cancelled}


def test_a_full_disk_under_a_wav(work: Path, unbroken: dict[str, Any]) -> None:
    """Goes red when half a WAV stays, the run claims to be complete, or it cannot go on once there is room."""
    out = work / "full-wav"
    largest = 20_000  # bytes: a WAV of eight frames is larger, all other files of this run are smaller
    process = start(("ttsbench.experiment.synthesis", "Synthesis._speak"), 1, arguments(work, out))
    wait_for_pause(process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest, largest))
    _, err = process.communicate("\n", timeout=60)
    assert process.returncode == 5
    assert "broken, the result is incomplete" in err
    assert "File too large" in err
    assert "Traceback" not in err
    check_run_folder(out)
    assert read_manifest(out).status is RunStatus.BROKEN
    assert synth(work, out, "--resume").code == 4
    assert outcomes(out) == unbroken
    check_run_folder(out)


@pytest.mark.parametrize("kind", ["request", "trace"])
def test_a_full_disk_under_a_record(
    work: Path, unbroken: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Goes red when half a line stays, or a row whose record did not fit counts as done."""
    out, written, write = tmp_path / "run", [], os.write

    def filling_up(fd: int, data: Any) -> int:
        if b'"kind":"%s"' % kind.encode() in bytes(data[:100]):
            written.append(data)
            if len(written) > 2:
                write(fd, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data)

    monkeypatch.setattr("ttsbench.records.writer.os.write", filling_up)
    ended = synth(work, out)
    monkeypatch.undo()
    assert ended.code == 5
    assert "No space left on device" in ended.err
    assert read_manifest(out).status is RunStatus.BROKEN
    for name in ("requests.jsonl", "trace.jsonl"):
        for line in (out / name).read_text(encoding="utf-8").splitlines():
            json.loads(line)
    assert len(read_requests(out).rows) == 2
    assert synth(work, out, "--resume").code == 4
    assert outcomes(out) == unbroken
    check_run_folder(out)


def test_an_engine_that_breaks_leaves_a_run_that_can_go_on(
    work: Path, unbroken: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goes red when an unexpected error hides its traceback, or passes for a complete run."""
    steps = []

    def broken(self: Any, plan: Any) -> Any:
        steps.append(1)
        if len(steps) > 9:
            raise RuntimeError("the device is gone")
        return launch(self, plan)

    from ttsbench.engine.runner import Runner

    launch = Runner.launch
    monkeypatch.setattr(Runner, "launch", broken)
    out = tmp_path / "run"
    ended = synth(work, out)
    monkeypatch.undo()
    assert ended.code == 5
    assert "RuntimeError: the device is gone" in ended.err
    assert read_manifest(out).status is RunStatus.BROKEN
    assert synth(work, out, "--resume").code == 4
    assert outcomes(out) == unbroken
