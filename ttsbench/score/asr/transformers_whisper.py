"""Whisper through Transformers, as the Seed-TTS authors and vLLM-Omni run it.

The two differ in what happens beyond 30 s: the authors' feature extractor keeps the first 30 s, vLLM-Omni decodes the
whole clip in its long form. Greedy generation with the checkpoint's own settings in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import JsonValue

from ttsbench.core import InvalidInput
from ttsbench.score.asr import Clip
from ttsbench.score.asr.weights import find_model, hash_folder, missing_package, package_versions
from ttsbench.score.audio import ASR_RATE_HZ, WINDOW_S, audible_stretches
from ttsbench.score.policy import LongAudio

ENGLISH: Mapping[str, JsonValue] = {"language": "en", "task": "transcribe"}
WINDOW = WINDOW_S * ASR_RATE_HZ


@dataclass(frozen=True)
class TransformersWhisperSpec:
    """A Whisper checkpoint in the layout of Transformers."""

    model: str
    """Hub id, or a folder."""
    revision: str | None
    """Commit of the hub repository; it is not looked at where a folder is given."""
    long_audio: LongAudio
    """What is heard of a clip of more than 30 s."""
    precision: Literal["float32", "float16", "bfloat16"] = "float32"
    """What the weights are brought to, and computed in."""
    generate: Mapping[str, JsonValue] = field(default_factory=lambda: dict(ENGLISH))
    """Arguments of `generate`; a checkpoint that knows English alone takes neither language nor task."""

    cacheable: ClassVar[bool] = True

    def pinned(self) -> dict[str, JsonValue]:
        return {
            "engine": "transformers",
            "model": self.model,
            "revision": self.revision,
            "precision": self.precision,
            "long_audio": str(self.long_audio),
            "generate": dict(self.generate),
        }

    def found(self) -> dict[str, JsonValue]:
        folder = find_model(self.model, self.revision)
        return {"files": dict(hash_folder(folder, ".safetensors", ".json", ".txt")), "device": _device()}

    def versions(self) -> dict[str, str]:
        return package_versions("transformers", "torch", "tokenizers")

    def open(self) -> TransformersWhisperTranscriber:
        self.versions()
        folder = find_model(self.model, self.revision)
        try:
            import torch
            from transformers import WhisperForConditionalGeneration, WhisperProcessor
        except ImportError as error:
            raise InvalidInput(missing_package("transformers", str(error))) from error
        model = WhisperForConditionalGeneration.from_pretrained(folder, local_files_only=True)
        # The release decides what precision weights are loaded in; from there it is brought to the pinned one.
        model = model.to(device=_device(), dtype=getattr(torch, self.precision)).eval()
        processor = WhisperProcessor.from_pretrained(folder, local_files_only=True)
        return TransformersWhisperTranscriber(model, processor, self.long_audio, self.generate)


class TransformersWhisperTranscriber:
    """A loaded model, one clip at a time: what else is in a batch may change a clip's words."""

    workers = 1

    def __init__(self, model: Any, processor: Any, long_audio: LongAudio, generate: Mapping[str, JsonValue]) -> None:
        self._model = model
        self._processor = processor
        self._long_audio = long_audio
        self._generate = dict(generate)

    def transcribe(self, clip: Clip) -> str:
        samples = clip.samples[:WINDOW] if self._long_audio == LongAudio.FIRST_30_S else clip.samples
        texts = [self._hear(samples[start:end]) for start, end in audible_stretches(samples)]
        return " ".join(text.strip() for text in texts)

    def _hear(self, samples: np.ndarray) -> str:
        import torch

        # Short clips are padded to the 30 s the encoder takes; only longer ones go through the long form.
        long = {"truncation": False, "padding": "longest"} if len(samples) > WINDOW else {}
        features = self._processor(
            samples, sampling_rate=ASR_RATE_HZ, return_tensors="pt", return_attention_mask=True, **long
        ).to(self._model.device)
        options = self._generate | ({"return_timestamps": True} if long else {})
        with torch.inference_mode():
            codes = self._model.generate(
                features.input_features.to(self._model.dtype), attention_mask=features.attention_mask, **options
            )
        return str(self._processor.batch_decode(codes, skip_special_tokens=True)[0])


def _device() -> str:
    try:
        import torch
    except ImportError as error:
        raise InvalidInput(missing_package("torch", str(error))) from error
    return "cuda" if torch.cuda.is_available() else "cpu"
