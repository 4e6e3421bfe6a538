"""A protocol is what it pins, and only what is pinned runs."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.score.runs import tone
from ttsbench.core import InvalidInput
from ttsbench.score import find_protocol
from ttsbench.score.asr import Clip
from ttsbench.score.asr.faster_whisper import FasterWhisperSpec, FasterWhisperTranscriber
from ttsbench.score.protocol import MINI_EN_1

ROOT = Path(__file__).parents[2]
MINI_EN_1_SHA256 = "40e7fbc5a0d1b03120cdc18954ce84ecf42274cb1974c7a666cf180272cd2ba4"


def spec(**changes: Any) -> FasterWhisperSpec:
    asr = MINI_EN_1.asr
    assert isinstance(asr, FasterWhisperSpec)
    return dataclasses.replace(asr, **changes)


def test_a_protocol_never_changes_under_its_id() -> None:
    """Red when anything pinned changes: give the change a new id, for old figures carry this hash."""
    assert MINI_EN_1.sha256() == MINI_EN_1_SHA256


def test_whatever_is_pinned_is_in_the_hash() -> None:
    """Red when the precision, an option, a weight or the language can differ under one hash."""
    changed = [
        spec(compute_type="float32"),
        spec(options={**spec().options, "beam_size": 5}),
        spec(files={**spec().files, "model.bin": "0" * 64}),
    ]
    protocols = [dataclasses.replace(MINI_EN_1, asr=asr) for asr in changed]
    protocols.append(dataclasses.replace(MINI_EN_1, language="zh"))
    hashes = {protocol.sha256() for protocol in (MINI_EN_1, *protocols)}
    assert len(hashes) == 5


def test_an_unknown_protocol_is_refused_with_the_valid_ids() -> None:
    """Red when an id falls back to a default."""
    with pytest.raises(InvalidInput, match=r"expected one of mini-en-1, .*f5-tts, got whisper"):
        find_protocol("whisper")


def test_a_missing_weights_package_is_an_error_that_says_what_to_install() -> None:
    """Red when another model stands in."""
    with pytest.raises(InvalidInput, match=r"no module not_there.*pip install --force-reinstall not-there==1\.0"):
        spec(package="not_there", distribution="not-there==1.0").open()


def test_a_missing_recogniser_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when an ImportError gets through, or something else stands in."""
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    with pytest.raises(InvalidInput, match="pip install faster-whisper"):
        spec().open()


def test_other_weights_are_refused_all_faults_at_once() -> None:
    """Red when the files' hashes are not compared."""
    with pytest.raises(InvalidInput) as caught:
        spec(files={"config.json": "0" * 64, "lost.bin": "1" * 64}).open()
    assert [problem.expected for problem in caught.value.problems] == [f"sha256 {'0' * 64}", f"sha256 {'1' * 64}"]
    assert caught.value.problems[1].got == "no such file"


def test_loading_the_weights_package_runs_none_of_its_code(tmp_path: Path) -> None:
    """Red when the package is imported to find its folder."""
    package = tmp_path / "heavy_weights"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    code = (
        "from tests.score.test_protocol import spec; from ttsbench.core import InvalidInput\n"
        "try: spec(package='heavy_weights', files={'a': '0' * 64}).open()\n"
        "except InvalidInput as error: print(error)"
    )
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=env, check=True)
    assert "no such file" in done.stdout


class RecordingModel:
    """Stands where a WhisperModel does; hears one word in every clip it is asked for."""

    def __init__(self) -> None:
        self.clips: list[float] | None = None

    def transcribe(self, samples: np.ndarray, clip_timestamps: list[float], **options: Any) -> tuple[list[Any], None]:
        self.clips = clip_timestamps
        return [type("Segment", (), {"text": " word"})() for _ in clip_timestamps[::2]], None


def test_the_model_is_asked_for_the_audible_windows_only() -> None:
    """Red when a silent window is decoded: a recogniser with a fixed language fills it with words."""
    model = RecordingModel()
    transcriber = FasterWhisperTranscriber(model, {}, workers=1)
    silence = np.zeros(30 * 16_000, np.float32)
    sound = tone(8_000)
    clip = Clip(np.concatenate([silence, tone(30 * 16_000), silence, sound]), "0" * 64)
    assert transcriber.transcribe(clip) == "word word"
    assert model.clips == [30.0, 60.0, 90.0, 90.5]
    model.clips = None
    assert transcriber.transcribe(Clip(silence, "0" * 64)) == ""
    assert model.clips is None


def test_scoring_needs_no_engine() -> None:
    """Red when `ttsbench.score` pulls in an engine, a model or torch."""
    code = "import sys, ttsbench.score; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = set(done.stdout.split())
    rooms = {name.split(".")[1] for name in loaded if name.startswith("ttsbench.")}
    assert rooms == {"core", "records", "score"}
    assert not loaded & {"torch", "faster_whisper", "ctranslate2"}
