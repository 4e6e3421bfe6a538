"""The embedded speaker encoder: the GE2E network of the package Resemblyzer 0.1.4, behind a front end of our own.

The network (Wan et al., "Generalized end-to-end loss for speaker verification", 2018: three LSTM layers over the mel
powers of 1.6 s) and its weights are the package's; `ttsbench/assets/ge2e` has them with their licence. The package
itself no longer imports on a current stack, and its vectors move with what a voice is not: it raises quiet clips and
leaves loud ones, whose powers the network hears without a logarithm (a clip at four times the amplitude had cosine 0.73
with itself), and adds or drops a last window when the length changes a little. Here

- pauses go first (`ttsbench.score.speaker.speech`), then all speech is brought to -24 dBFS, where clips as they come
  mostly are and the package's own vectors are nearest: gain changes nothing;
- windows are spread evenly from the first sample to the last, and speech shorter than a window is repeated to fill it,
  where the package pads with silence (equal-error rate of 0.8 s of speech against clips: 2.7 % instead of 3.7 %).

`scripts/measure_speaker_encoder.py` measures what it is worth. Vectors are not negative, so 0.5 is "unrelated", not 0.

Shapes: S samples, T mel frames, M mel bins, W windows, D vector width.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from pydantic import JsonValue
from torch import Tensor, nn

from ttsbench.assets import asset_folder
from ttsbench.core import InvalidInput, Problem
from ttsbench.score.audio import ASR_RATE_HZ
from ttsbench.score.speaker import speech

WEIGHTS, CHECK = "ge2e.safetensors", "self_check.json"
WEIGHTS_SHA256 = "75ea12a158fc5f097b8e0871365f57fd1f8e6ba60c15d739e3954b29c1cdf778"

N_FFT, HOP, BINS = 400, 160, 40
WIDTH, LAYERS = 256, 3
WINDOW = 160
"""Mel frames of a window: 1.6 s."""
MAX_STEP = 77
"""Most mel frames from one window to the next, as the package has it: 1.3 windows a second."""
WINDOWS_AT_ONCE = 64
"""Bounds the memory that a runaway takes."""
LEVEL_DBFS = -24.0

CHECK_TOLERANCE = 1e-4
"""Largest difference of an element in the self-check. Between machines and releases of torch, float32 differs by some
1e-6; half-precision arithmetic, which a process may have switched on, by more than 1e-3."""


class Ge2eEncoder:
    """GE2E over weights by tensor name, in any float type; computes in single precision."""

    name = "ge2e-resemblyzer-0.1.4"

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self._network = _Network(weights)
        self._filters = torch.from_numpy(slaney_filters(ASR_RATE_HZ, N_FFT, BINS))

    @classmethod
    def load(cls, folder: Path | None = None) -> Ge2eEncoder:
        """The embedded weights, checked. Raises InvalidInput if they, or what they compute, are not as shipped."""
        folder = asset_folder("ge2e") if folder is None else folder
        data = (folder / WEIGHTS).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest != WEIGHTS_SHA256:
            hint = "reinstall ttsbench, or remake the file with scripts/make_ge2e.py"
            raise InvalidInput(Problem(str(folder / WEIGHTS), f"sha256 {WEIGHTS_SHA256}", digest, hint))
        expected = np.array(json.loads((folder / CHECK).read_text()), np.float32)
        encoder = cls(safetensors.torch.load(data))
        encoder.self_check(expected)
        return encoder

    def self_check(self, expected: np.ndarray) -> None:
        """Raises InvalidInput unless the vector of `check_signal()` is `expected` [D]."""
        error = float(np.abs(self.embed(check_signal()) - expected).max())
        if not error <= CHECK_TOLERANCE:
            told, got = f"the stored vector of a known signal, to {CHECK_TOLERANCE:g}", f"one that is {error:.2g} off"
            hint = f"reinstall ttsbench; if that changes nothing, torch {torch.__version__} computes otherwise here"
            raise InvalidInput(Problem(f"speaker encoder {self.name}", told, got, hint))

    def pinned(self) -> dict[str, JsonValue]:
        return {
            "model": self.name,
            "files": {WEIGHTS: WEIGHTS_SHA256},
            "dtype": "float32",
            "rate_hz": ASR_RATE_HZ,
            "pauses": dict(speech.PINNED),
            "level_dbfs": LEVEL_DBFS,
            "short_speech": "repeated",
            "mel": {"n_fft": N_FFT, "hop": HOP, "bins": BINS, "scale": "slaney", "power": 2, "log": False},
            "window_frames": WINDOW,
            "max_step_frames": MAX_STEP,
            "vector": "mean of the windows' unit vectors, at length 1",
        }

    @torch.inference_mode()
    def embed(self, samples: np.ndarray) -> np.ndarray:
        """Unit vector [256], float32, no element negative. Raises ValueError for samples without sound."""
        windows = self._windows(_levelled(speech.spoken(samples)))
        vectors = torch.cat([self._network(some) for some in torch.split(windows, WINDOWS_AT_ONCE)])
        return np.asarray(nn.functional.normalize(vectors.mean(0), dim=0).numpy())

    def _windows(self, wav: np.ndarray) -> Tensor:
        """Mel powers [W, WINDOW, M], the windows evenly spread over `wav` [S]."""
        wav = np.resize(wav, max(len(wav), WINDOW * HOP))
        last = len(wav) // HOP - WINDOW
        starts = np.linspace(0, last, 1 - (-last // MAX_STEP)).round().astype(int)
        mel = self._mel(torch.from_numpy(wav))
        return torch.stack([mel[start : start + WINDOW] for start in starts])

    def _mel(self, wav: Tensor) -> Tensor:
        """Mel powers [T, M], without a logarithm."""
        padded = nn.functional.pad(wav, (N_FFT // 2, N_FFT // 2))
        spectrum = torch.stft(padded, N_FFT, HOP, window=torch.hann_window(N_FFT), center=False, return_complex=True)
        return (self._filters @ spectrum.abs().square()).T


class _Network(nn.Module):
    """Windows [W, WINDOW, M] to unit vectors [W, D]."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.lstm = nn.LSTM(BINS, WIDTH, LAYERS, batch_first=True)
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.load_state_dict({name: tensor.float() for name, tensor in weights.items()})

    def forward(self, windows: Tensor) -> Tensor:
        _, (hidden, _) = self.lstm(windows)
        return nn.functional.normalize(self.linear(hidden[-1]).relu(), dim=1)


def check_signal() -> np.ndarray:
    """Three seconds of a buzz that sings and pauses, float32 at 16 kHz: enough of a voice for the self-check."""
    time = np.arange(3 * ASR_RATE_HZ) / ASR_RATE_HZ
    phase = 2 * np.pi * (140 * time + 5 * np.sin(2 * np.pi * 1.5 * time))
    buzz = sum(np.sin(k * phase) / k for k in range(1, 30))
    return (0.1 * np.sin(np.pi * 2.2 * time) ** 2 * buzz).astype(np.float32)


def _levelled(wav: np.ndarray) -> np.ndarray:
    """At LEVEL_DBFS. Raises ValueError for samples without sound."""
    power = speech.frame_power(wav)
    if not power.any():
        raise ValueError("no sound to tell a voice by")
    return np.asarray(wav * np.float32(10 ** (LEVEL_DBFS / 20) / np.sqrt(power.mean())), np.float32)


def slaney_filters(rate_hz: int, n_fft: int, bins: int) -> np.ndarray:
    """Triangular mel filters of equal area [M, n_fft / 2 + 1], up to half the rate: librosa's default."""
    top = 15 + np.log(rate_hz / 2 / 1000) / (np.log(6.4) / 27)
    mels = np.linspace(0, top, bins + 2)
    hz = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp((mels - 15) * np.log(6.4) / 27))
    frequency = np.linspace(0, rate_hz / 2, n_fft // 2 + 1)
    low, middle, high = hz[:-2, None], hz[1:-1, None], hz[2:, None]
    triangles = np.minimum((frequency - low) / (middle - low), (high - frequency) / (high - middle))
    return np.asarray(np.maximum(triangles, 0) * 2 / (high - low), np.float32)
