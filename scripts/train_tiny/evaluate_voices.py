"""Judges of a voice and of its quality: two speaker encoders that know nothing of each other, and DNSMOS.

`EmbeddedJudge` is the checkpoint's own encoder, which the talker was trained on: it may be fooled the way the talker
was. `IndependentJudge` is the encoder of the package Resemblyzer 0.1.4 (a GE2E LSTM), rebuilt over its weights, with an
energy gate in place of its voice activity detector: the package itself imports modules that are gone. Cosines of
unrelated voices are about 0.5 under it, of one voice about 0.9.

Shapes: S samples, T mel frames, M mel bins, D vector width.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ttsbench.models.qwen3_tts.checkpoint import Checkpoint
from ttsbench.score.audio import ASR_RATE_HZ, Audio, for_asr


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


N_FFT, HOP, BINS = 400, 160, 40
WINDOW = 160
"""Mel frames that are heard at once: 1.6 s."""
STEP = 77
"""Mel frames between windows: 1.3 windows a second."""
MIN_COVER = 0.75
"""A last window that holds less sound than this is left out."""
MIN_DBFS = -30.0
GATE_FRAME, GATE_DB, GATE_SPREAD = 480, 35.0, 7


class IndependentJudge(nn.Module):
    """Mean of the unit vectors of overlapping windows, at length 1."""

    name = "independent"

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self.lstm = nn.LSTM(BINS, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        state = torch.load(weights, map_location="cpu", weights_only=True)["model_state"]
        # the two others are the scale and offset of its training loss
        self.load_state_dict({name: value for name, value in state.items() if not name.startswith("similarity")})
        self._filters = torch.from_numpy(slaney_filters(ASR_RATE_HZ, N_FFT, BINS))

    @torch.inference_mode()
    def embed(self, sound: Audio) -> np.ndarray:
        wav = gated(raised(for_asr(sound)))
        frames = len(wav) // HOP + 1
        starts = list(range(0, max(1, frames - WINDOW + STEP + 1), STEP))
        if len(starts) > 1 and (len(wav) - starts[-1] * HOP) / (WINDOW * HOP) < MIN_COVER:
            starts.pop()
        missing = (starts[-1] + WINDOW) * HOP - len(wav)
        mel = self._mel(torch.from_numpy(np.pad(wav, (0, max(0, missing)))))
        windows = torch.stack([mel[start : start + WINDOW] for start in starts])
        _, (hidden, _) = self.lstm(windows)
        vectors = nn.functional.normalize(self.linear(hidden[-1]).relu(), dim=1)
        return np.asarray(nn.functional.normalize(vectors.mean(0), dim=0).numpy())

    def _mel(self, wav: Tensor) -> Tensor:
        """Mel power [T, M], without a logarithm."""
        padded = nn.functional.pad(wav, (N_FFT // 2, N_FFT // 2))
        spectrum = torch.stft(padded, N_FFT, HOP, window=torch.hann_window(N_FFT), center=False, return_complex=True)
        return (self._filters @ spectrum.abs().square()).T


def raised(wav: np.ndarray) -> np.ndarray:
    """At least as loud as MIN_DBFS."""
    rms = float(np.sqrt(np.square(wav, dtype=np.float64).mean())) + 1e-9
    return np.asarray(wav * np.float32(max(1.0, 10 ** (MIN_DBFS / 20) / rms)))


def gated(wav: np.ndarray) -> np.ndarray:
    """Without long pauses: 30 ms frames far under the loud ones and not near any of those. Short sounds stay whole."""
    count = len(wav) // GATE_FRAME
    if count < GATE_SPREAD:
        return wav
    frames = wav[: count * GATE_FRAME].reshape(count, GATE_FRAME)
    level = 10 * np.log10(np.square(frames).mean(1) + 1e-10)
    loud = np.convolve(level > np.percentile(level, 95) - GATE_DB, np.ones(GATE_SPREAD), "same") > 0
    return np.asarray(frames[loud].ravel())


def slaney_filters(rate_hz: int, n_fft: int, bins: int) -> np.ndarray:
    """Triangular mel filters of equal area [M, n_fft / 2 + 1], up to half the rate: librosa's default."""
    top = 15 + np.log(rate_hz / 2 / 1000) / (np.log(6.4) / 27)
    mels = np.linspace(0, top, bins + 2)
    hz = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp((mels - 15) * np.log(6.4) / 27))
    frequency = np.linspace(0, rate_hz / 2, n_fft // 2 + 1)
    low, middle, high = hz[:-2, None], hz[1:-1, None], hz[2:, None]
    triangles = np.minimum((frequency - low) / (middle - low), (high - frequency) / (high - middle))
    return np.asarray(np.maximum(triangles, 0) * 2 / (high - low), np.float32)


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
