"""Judges of a voice and of its quality: two speaker encoders that know nothing of each other, and DNSMOS.

`EmbeddedJudge` is the checkpoint's own encoder, which the talker was trained on: it may be fooled the way the talker
was. `IndependentJudge` is the one that ships for scoring, a GE2E network (`ttsbench.score.speaker.ge2e`). Cosines of
unrelated voices are about 0.56 under it, of one voice about 0.85.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from ttsbench.models.qwen3_tts.checkpoint import Checkpoint
from ttsbench.score.audio import ASR_RATE_HZ, Audio, for_asr
from ttsbench.score.speaker.ge2e import Ge2eEncoder


class Judge(Protocol):
    """Hears whose voice a sound has."""

    name: str

    def embed(self, sound: Audio) -> np.ndarray:
        """Vector [D] of length 1."""


class EmbeddedJudge:
    """The speaker encoder of a Base checkpoint folder."""

    name = "embedded"

    def __init__(self, folder: Path) -> None:
        encoder = Checkpoint.load(folder, torch.device("cpu"), torch.float32).model.speaker_encoder
        if encoder is None:
            raise ValueError(f"{folder} holds no speaker encoder: it is not a Base checkpoint")
        self._encoder = encoder

    @torch.inference_mode()
    def embed(self, sound: Audio) -> np.ndarray:
        if sound.sample_rate_hz != self._encoder.config.sample_rate_hz:
            raise ValueError(f"sound at {sound.sample_rate_hz} Hz for an encoder of other rates")
        vector = self._encoder.embed(torch.from_numpy(sound.samples)).numpy()
        return np.asarray(vector / np.linalg.norm(vector))


class IndependentJudge:
    """The speaker encoder of `ttsbench score`."""

    name = "independent"

    def __init__(self) -> None:
        self._encoder = Ge2eEncoder.load()

    def embed(self, sound: Audio) -> np.ndarray:
        return self._encoder.embed(for_asr(sound))


class Dnsmos:
    """Overall quality (1 to 5) by DNSMOS P.835: `sig_bak_ovr.onnx` of the package speechmos 0.0.1.1."""

    SAMPLES = int(9.01 * ASR_RATE_HZ)
    OVERALL = (-0.06766283, 1.11546468, 0.04602535)

    def __init__(self, model: Path) -> None:
        import onnxruntime  # type: ignore[import-untyped]

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def overall(self, sound: Audio) -> float:
        """Mean over windows that start a second apart. A short sound is repeated to fill just one, where the published
        code doubles it, which may fill several: 0.01 apart, and up to nine times as quick.
        """
        samples = for_asr(sound)
        samples = np.resize(samples, max(len(samples), self.SAMPLES))
        starts = range(0, len(samples) - self.SAMPLES + 1, ASR_RATE_HZ)
        windows = [samples[None, start : start + self.SAMPLES].astype(np.float32) for start in starts]
        raw = [self._session.run(None, {"input_1": window})[0][0][2] for window in windows]
        return float(np.polyval(self.OVERALL, np.array(raw, np.float64)).mean())
