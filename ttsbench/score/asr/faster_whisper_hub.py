"""Whisper through faster-whisper, with weights of one's own: a folder, or a repository of the hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import JsonValue

from ttsbench.core import InvalidInput, Problem
from ttsbench.score.asr import Clip
from ttsbench.score.asr.faster_whisper import MAX_WORKERS, usable_cores
from ttsbench.score.asr.weights import find_model, hash_folder, missing_package, package_versions
from ttsbench.score.audio import ASR_RATE_HZ, audible_stretches, audible_windows

SYSTRAN_LARGE_V3 = "Systran/faster-whisper-large-v3"
"""What faster-whisper itself calls `large-v3`."""


@dataclass(frozen=True)
class FasterWhisperHubSpec:
    """A CTranslate2 Whisper folder."""

    model: str
    """Hub id, or a folder."""
    revision: str | None
    """Commit of the hub repository; it is not looked at where a folder is given."""
    compute_type: str
    """What the weights are computed in; float16 needs a GPU."""
    beam_size: int = 1
    batch_size: int | None = None
    """30 s windows decoded together; None decodes one after the other, as the package does by itself."""
    options: Mapping[str, JsonValue] = field(default_factory=lambda: {"language": "en"})
    """Further arguments of `transcribe`."""
    device: Literal["auto", "cpu", "cuda"] = "auto"

    cacheable: ClassVar[bool] = True

    def pinned(self) -> dict[str, JsonValue]:
        return {
            "engine": "faster-whisper",
            "model": self.model,
            "revision": self.revision,
            "compute_type": self.compute_type,
            "beam_size": self.beam_size,
            "batch_size": self.batch_size,
            "options": dict(self.options),
        }

    def found(self) -> dict[str, JsonValue]:
        folder = find_model(self.model, self.revision)
        return {"files": dict(hash_folder(folder, ".bin", ".json", ".txt")), "device": self._device()}

    def versions(self) -> dict[str, str]:
        return package_versions("faster-whisper", "ctranslate2", "tokenizers")

    def open(self) -> FasterWhisperHubTranscriber:
        self.versions()
        folder = find_model(self.model, self.revision)
        device = self._device()
        workers = min(MAX_WORKERS, usable_cores()) if device == "cpu" and self.batch_size is None else 1
        from faster_whisper import BatchedInferencePipeline, WhisperModel

        try:
            model = WhisperModel(
                str(folder), device=device, compute_type=self.compute_type, cpu_threads=1, num_workers=workers
            )
        except ValueError as error:  # what CTranslate2 says to a precision that the device lacks
            expected = f"a device that computes in {self.compute_type}"
            raise InvalidInput(Problem("recogniser", expected, f"{device}: {error}")) from error
        options = {"beam_size": self.beam_size, **self.options}
        if self.batch_size is None:
            return FasterWhisperHubTranscriber(model, options, workers)
        return BatchedTranscriber(BatchedInferencePipeline(model), {"batch_size": self.batch_size, **options}, workers)

    def _device(self) -> str:
        if self.device != "auto":
            return self.device
        try:
            import ctranslate2
        except ImportError as error:
            raise InvalidInput(missing_package("ctranslate2", str(error))) from error
        return "cuda" if ctranslate2.get_cuda_device_count() else "cpu"


class FasterWhisperHubTranscriber:
    """A loaded model. Audio of any length is heard whole, as the package seeks through it, but for silent windows."""

    def __init__(self, model: Any, options: Mapping[str, JsonValue], workers: int) -> None:
        self.workers = workers
        self._model = model
        self._options = dict(options)

    def transcribe(self, clip: Clip) -> str:
        clips = self._clips(clip.samples)
        if not clips:
            return ""
        segments, _ = self._model.transcribe(clip.samples, clip_timestamps=clips, **self._options)
        return " ".join(segment.text.strip() for segment in segments)

    def _clips(self, samples: np.ndarray) -> list[Any]:
        """Start and end of each audible stretch in seconds, in one list."""
        return [sample / ASR_RATE_HZ for stretch in audible_stretches(samples) for sample in stretch]


class BatchedTranscriber(FasterWhisperHubTranscriber):
    """The package's batched pipeline: audible windows of 30 s, several in one go."""

    def _clips(self, samples: np.ndarray) -> list[Any]:
        end_s = len(samples) / ASR_RATE_HZ
        return [{"start": float(start), "end": min(float(end), end_s)} for start, end in audible_windows(samples)]
