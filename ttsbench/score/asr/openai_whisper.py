"""Whisper through its authors' own package, openai-whisper."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import JsonValue

from ttsbench.core import InvalidInput, Problem
from ttsbench.score.asr import Clip
from ttsbench.score.asr.weights import MODELS_VARIABLE, file_sha256, missing_package, models_folder, package_versions
from ttsbench.score.audio import audible_stretches

GREEDY_ENGLISH: Mapping[str, JsonValue] = {
    "language": "en",
    "task": "transcribe",
    "temperature": 0.0,
    "condition_on_previous_text": False,
    "fp16": False,
}
"""Arguments of `transcribe`: greedy, one temperature, each 30 s window on its own, float32."""


@dataclass(frozen=True)
class OpenAIWhisperSpec:
    """A checkpoint of the package: a `.pt` file."""

    model: str
    """The package's name of it (`large-v3`), or the path of a file."""
    options: Mapping[str, JsonValue] = field(default_factory=lambda: dict(GREEDY_ENGLISH))

    cacheable: ClassVar[bool] = True

    def pinned(self) -> dict[str, JsonValue]:
        return {"engine": "openai-whisper", "model": self.model, "options": dict(self.options)}

    def found(self) -> dict[str, JsonValue]:
        return {"files": {"checkpoint": file_sha256(self._find())}, "device": _device()}

    def versions(self) -> dict[str, str]:
        return package_versions("openai-whisper", "torch", "tiktoken")

    def open(self) -> OpenAIWhisperTranscriber:
        self.versions()
        path = self._find()
        try:
            import whisper
        except ImportError as error:
            raise InvalidInput(missing_package("openai-whisper", str(error))) from error
        return OpenAIWhisperTranscriber(whisper.load_model(str(path), device=_device()), self.options)

    def _find(self) -> Path:
        """A path; else TTSBENCH_MODELS/<name>.pt; else where the package keeps what it downloaded."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whisper"
        places = [Path(self.model).expanduser()]
        places += [folder / f"{self.model}.pt" for folder in (models_folder(), cache) if folder is not None]
        for place in places:
            if place.is_file():
                return place
        hint = f"python -c \"import whisper; whisper.load_model('{self.model}')\", or set {MODELS_VARIABLE}"
        where, expected = f"weights of {self.model}", f"a file at {' or '.join(map(str, places[1:]))}"
        raise InvalidInput(Problem(where, expected, "none", hint))


class OpenAIWhisperTranscriber:
    """A loaded model, one clip at a time. Audio of any length is heard whole."""

    workers = 1

    def __init__(self, model: Any, options: Mapping[str, JsonValue]) -> None:
        self._model = model
        self._options = dict(options)

    def transcribe(self, clip: Clip) -> str:
        pieces = [clip.samples[start:end] for start, end in audible_stretches(clip.samples)]
        return " ".join(self._model.transcribe(piece, **self._options)["text"].strip() for piece in pieces)


def _device() -> str:
    try:
        import torch
    except ImportError as error:
        raise InvalidInput(missing_package("torch", str(error))) from error
    return "cuda" if torch.cuda.is_available() else "cpu"
