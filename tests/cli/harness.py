"""Commands run as a user would, checkpoints that end by themselves, and what a run folder must hold."""

from __future__ import annotations

import io
import os
import shutil
import wave
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pytest
import soundfile
from safetensors.torch import load_file, save_file

from ttsbench.assets import asset_folder
from ttsbench.cli.main import app
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.records import read_manifest, read_requests, read_trace

GOLDEN = Path(__file__).parents[1] / "golden"
CUSTOM_VOICE, BASE, VOICE_DESIGN = (GOLDEN / f"toy-{kind}" for kind in ("custom-voice", "base", "voice-design"))
CLIPS = asset_folder("mini_en") / "en" / "prompt-wavs"


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


def ttsbench(*arguments: object) -> Ended:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            app([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


@contextmanager
def pipe_without_reader() -> Iterator[TextIO]:
    """What a command writes to when `| head` has read enough: buffered, and every flush fails."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        yield stream


@contextmanager
def pipe_read_once() -> Iterator[TextIO]:
    """What a command writes to when `| head -1` goes away between two of its writes: the first words get through."""
    reading, writing = os.pipe()

    class Stream(io.TextIOWrapper):
        written, reader_left = 0, False

        def write(self, text: str) -> int:
            self.written += len(text)
            return super().write(text)

        def flush(self) -> None:
            super().flush()
            if self.written and not self.reader_left:
                os.close(reading)
                self.reader_left = True

    with Stream(os.fdopen(writing, "wb")) as stream:
        yield stream


def refuse_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every folder one without permission to write, even for root, whom the system itself never refuses."""
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)


def terse(toy: Path, into: Path) -> Path:
    """A copy of a toy checkpoint that ends by itself after 2 to 30 frames, which random weights seldom do.

    The row of codec_head that gives end of speech its logit is tripled: its sign changes from frame to frame, so the
    first frames in which it is large and positive end the utterance.
    """
    shutil.copytree(toy, into)
    into.chmod(0o755)
    weights = into / "model.safetensors"
    tensors = load_file(weights)
    head = tensors["talker.codec_head.weight"].clone()
    head[Qwen3TTSConfig.from_folder(toy).control.eos] *= 3
    weights.unlink()
    save_file(tensors | {"talker.codec_head.weight": head}, weights)
    return into


def write_list(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_clip(path: Path, samples: np.ndarray, rate_hz: int = 24_000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate_hz, subtype="PCM_16")
    return path


def pcm_of(path: Path) -> np.ndarray:
    """int16 [S] of a mono WAV, read by the strictest reader at hand."""
    with wave.open(str(path), "rb") as file:
        assert file.getnchannels() == 1
        return np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")


def outcomes(run: Path) -> dict[str, Any]:
    """Per utterance what an unbroken run and a resumed one must agree on: status, seed, frames and the WAV's bytes."""
    found = {}
    for record in read_requests(run).rows.values():
        data = None if record.wav_path is None else (run / record.wav_path).read_bytes()
        found[record.utterance_id] = (record.status.value, record.seed, record.frames, data)
    return found


def check_run_folder(run: Path) -> None:
    """Nothing temporary, WAVs and records in pairs, whole frames, and each recorded attempt once in the trace."""
    log, trace = read_requests(run), read_trace(run)
    assert log.torn_bytes == trace.torn_bytes == 0
    assert not list(run.rglob("*.tmp"))
    wavs = {path.relative_to(run).as_posix() for path in run.glob("wav/*")}
    assert wavs == {record.wav_path for record in log.rows.values() if record.wav_path is not None}
    hop = read_manifest(run).engine.hop_samples
    for record in log.rows.values():
        if record.wav_path is not None:
            assert len(pcm_of(run / record.wav_path)) == record.samples == (record.frames or 0) * hop
    lines = Counter((line.row_index, line.attempt, line.index) for line in trace.records)
    assert all(count == 1 for count in lines.values()), "a trace line stands twice"
    begun = {(r.row_index, r.attempt) for r in log.attempts if r.submitted_s is not None}
    assert {(row, attempt) for row, attempt, _ in lines} == begun
    frames: dict[tuple[int, int], int] = {}
    for line in trace.records:
        assert line.start_frame == frames.get((line.row_index, line.attempt), 0)
        assert line.end_frame is not None
        frames[line.row_index, line.attempt] = line.end_frame
    assert frames == {(r.row_index, r.attempt): r.frames for r in log.attempts if r.submitted_s is not None}
