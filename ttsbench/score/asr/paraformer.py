"""Paraformer through FunASR: the official recogniser for Mandarin. Its script is the text rule's business."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import JsonValue

from ttsbench.core import InvalidInput, Problem
from ttsbench.score.asr import Clip
from ttsbench.score.asr.weights import MODELS_VARIABLE, hash_folder, missing_package, models_folder, package_versions
from ttsbench.score.audio import audible_stretches

PARAFORMER_ZH = "iic/speech_seaco_paraformer_large_asr_nat-zh-cn-16k-common-vocab8404-pytorch"
"""What FunASR calls `paraformer-zh`, on ModelScope."""


@dataclass(frozen=True)
class ParaformerSpec:
    """No voice activity detection, punctuation or speaker model around it, as in the official script."""

    model: str = PARAFORMER_ZH
    """ModelScope id, or a folder."""
    revision: str = "v2.0.4"
    """ModelScope revision the official package asks for; the files' hashes say what was there."""
    options: Mapping[str, JsonValue] = field(default_factory=lambda: {"batch_size_s": 300})

    cacheable: ClassVar[bool] = True

    def pinned(self) -> dict[str, JsonValue]:
        return {
            "engine": "funasr",
            "model": self.model,
            "revision": self.revision,
            "options": dict(self.options),
        }

    def found(self) -> dict[str, JsonValue]:
        return {"files": dict(hash_folder(self._find(), ".pt", ".yaml", ".json", ".mvn", ""))}

    def versions(self) -> dict[str, str]:
        return package_versions("funasr", "torch")

    def open(self) -> ParaformerTranscriber:
        self.versions()
        folder = self._find()
        try:
            from funasr import AutoModel
        except ImportError as error:
            raise InvalidInput(missing_package("funasr", str(error))) from error
        model = AutoModel(model=str(folder), disable_update=True, disable_pbar=True)
        return ParaformerTranscriber(model, self.options)

    def _find(self) -> Path:
        """A path; else TTSBENCH_MODELS/<id>; else where ModelScope keeps what it downloaded, new layout and old."""
        cache = Path(os.environ.get("MODELSCOPE_CACHE") or Path.home() / ".cache" / "modelscope")
        parents = (models_folder(), cache / "models", cache / "hub" / "models", cache / "hub")
        places = [Path(self.model).expanduser(), *(parent / self.model for parent in parents if parent is not None)]
        for place in places:
            if place.is_dir():
                return place
        hint = f"modelscope download --model {self.model}, or set {MODELS_VARIABLE} to a folder that holds it"
        expected = f"a folder at {' or '.join(map(str, places[1:]))}"
        raise InvalidInput(Problem(f"weights of {self.model}", expected, "none", hint))


class ParaformerTranscriber:
    """A loaded model, one clip at a time: its words shift with what else is in a batch."""

    workers = 1

    def __init__(self, model: Any, options: Mapping[str, JsonValue]) -> None:
        self._model = model
        self._options = dict(options)

    def transcribe(self, clip: Clip) -> str:
        pieces = [clip.samples[start:end] for start, end in audible_stretches(clip.samples)]
        return " ".join(self._model.generate(input=piece, **self._options)[0]["text"].strip() for piece in pieces)
