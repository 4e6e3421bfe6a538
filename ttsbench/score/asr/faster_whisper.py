"""Whisper through faster-whisper, with weights that came in a Python package.

One model serves several workers of one thread each: on a CPU that is quicker than one worker with several threads, and
keeps every row's arithmetic the same however many workers there are.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import JsonValue

from ttsbench.core import InvalidInput, Problem
from ttsbench.score.asr import Clip
from ttsbench.score.asr.weights import file_sha256, missing_package, package_versions
from ttsbench.score.audio import ASR_RATE_HZ, audible_windows

if TYPE_CHECKING:
    from faster_whisper import WhisperModel

MAX_WORKERS = 8

GREEDY_ENGLISH: Mapping[str, JsonValue] = {
    "language": "en",
    "task": "transcribe",
    "beam_size": 1,
    "temperature": 0.0,
    "condition_on_previous_text": False,
    "without_timestamps": True,
    "suppress_blank": True,
    "suppress_tokens": [-1],
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "compression_ratio_threshold": None,
    "log_prob_threshold": -1.0,
    "no_speech_threshold": 0.6,
    "vad_filter": False,
}
"""Arguments of `WhisperModel.transcribe`: greedy, one temperature, each 30 s window on its own."""


@dataclass(frozen=True)
class FasterWhisperSpec:
    """A CTranslate2 Whisper folder inside an installed package."""

    name: str
    package: str
    """Import name of the package that holds the weights; it is found, never imported."""
    distribution: str
    """What to install, `name==version`."""
    folder: str
    """Folder inside the package."""
    files: Mapping[str, str]
    """SHA-256 of every file that decides the result."""
    compute_type: str
    options: Mapping[str, JsonValue] = field(default_factory=lambda: dict(GREEDY_ENGLISH))

    cacheable: ClassVar[bool] = True

    def pinned(self) -> dict[str, JsonValue]:
        return {
            "engine": "faster-whisper",
            "model": self.name,
            "files": dict(self.files),
            "compute_type": self.compute_type,
            "threads_per_worker": 1,
            "options": dict(self.options),
        }

    def found(self) -> dict[str, JsonValue]:
        return {}

    def versions(self) -> dict[str, str]:
        return package_versions("faster-whisper", "ctranslate2", "tokenizers")

    def open(self) -> FasterWhisperTranscriber:
        folder = self._find()
        self._check(folder)
        try:
            from faster_whisper import WhisperModel
        except ImportError as error:
            raise InvalidInput(missing_package("faster-whisper", str(error))) from error
        workers = min(MAX_WORKERS, usable_cores())
        model = WhisperModel(
            str(folder), device="cpu", compute_type=self.compute_type, cpu_threads=1, num_workers=workers
        )
        return FasterWhisperTranscriber(model, dict(self.options), workers)

    def _find(self) -> Path:
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            where, expected, got = f"weights of {self.name}", self.distribution, f"no module {self.package}"
            raise InvalidInput(Problem(where, expected, got, self._hint()))
        return Path(spec.submodule_search_locations[0]) / self.folder

    def _check(self, folder: Path) -> None:
        problems = []
        for name, expected in self.files.items():
            path = folder / name
            got = file_sha256(path) if path.is_file() else "no such file"
            if got != expected:
                problems.append(Problem(str(path), f"sha256 {expected}", got, self._hint()))
        if problems:
            raise InvalidInput(problems)

    def _hint(self) -> str:
        return f"pip install --force-reinstall {self.distribution}"


class FasterWhisperTranscriber:
    """A loaded model. Audio of any length is heard whole, in windows of 30 s; silent windows give no words."""

    def __init__(self, model: WhisperModel, options: Mapping[str, JsonValue], workers: int) -> None:
        self.workers = workers
        self._model = model
        self._options = dict(options)

    def transcribe(self, clip: Clip) -> str:
        samples = clip.samples
        windows = audible_windows(samples)
        if not windows:
            return ""
        end_s = len(samples) / ASR_RATE_HZ
        clips = [second for start, end in windows for second in (float(start), min(float(end), end_s))]
        segments, _ = self._model.transcribe(samples, clip_timestamps=clips, **self._options)
        return "".join(segment.text for segment in segments).strip()


def usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
