"""Log mel spectrogram in front of the speaker encoder, in plain torch.

Slaney's mel scale (linear below 1 kHz, logarithmic above) with filters of equal area, a periodic Hann window, reflected
edges, magnitudes and their natural logarithm: the numbers of librosa's default filterbank and the published front end.
Always float32: the published code computes spectra so, whatever dtype the network has.

Shapes: T mel frames, M mel bins.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.models.device import on_device

N_FFT = 1024
HOP = 256
PAD = (N_FFT - HOP) // 2
MAX_HZ = 12_000.0
MAGNITUDE_FLOOR = 1e-9
LOG_FLOOR = 1e-5

_LINEAR_STEP_HZ = 200 / 3
_LOG_START_HZ = 1000.0
_LOG_STEP = math.log(6.4) / 27


def log_mel(wav: Tensor, bins: int = 128, sample_rate_hz: int = 24_000) -> Tensor:
    """Log mel spectrogram [T, M] float32 of `wav` [samples], T = 1 + (samples - 256) // 256.

    Needs more than 384 samples (the reflected edge); raises ValueError below.
    """
    if wav.dim() != 1 or wav.shape[0] <= PAD:
        raise ValueError(f"wav must be mono with more than {PAD} samples, got {list(wav.shape)}")
    padded = F.pad(wav.float()[None], (PAD, PAD), mode="reflect")[0]
    window = torch.hann_window(N_FFT, device=wav.device)
    spectrum = torch.stft(padded, N_FFT, HOP, window=window, center=False, return_complex=True)
    magnitude = (spectrum.real.square() + spectrum.imag.square() + MAGNITUDE_FLOOR).sqrt()
    mel = on_device(filterbank(bins, sample_rate_hz), wav.device) @ magnitude
    return mel.clamp(min=LOG_FLOOR).log().T


@lru_cache(maxsize=4)
def filterbank(bins: int, sample_rate_hz: int) -> Tensor:
    """Triangular filters [M, N_FFT / 2 + 1] float32 from 0 Hz to MAX_HZ, each of area 1 over Hz / 2."""
    edges = _mel_to_hz(torch.linspace(0, _hz_to_mel(MAX_HZ), bins + 2, dtype=torch.float64))
    lower, centre, upper = (edges[i : i + bins, None] for i in range(3))
    hz = torch.linspace(0, sample_rate_hz / 2, N_FFT // 2 + 1, dtype=torch.float64)
    rising, falling = (hz - lower) / (centre - lower), (upper - hz) / (upper - centre)
    triangles = torch.minimum(rising, falling).clamp(min=0)
    return (triangles * 2 / (upper - lower)).float()


def _hz_to_mel(hz: float) -> float:
    """Of a frequency above the linear part."""
    return _LOG_START_HZ / _LINEAR_STEP_HZ + math.log(hz / _LOG_START_HZ) / _LOG_STEP


def _mel_to_hz(mels: Tensor) -> Tensor:
    start = _LOG_START_HZ / _LINEAR_STEP_HZ
    return torch.where(mels < start, mels * _LINEAR_STEP_HZ, _LOG_START_HZ * torch.exp(_LOG_STEP * (mels - start)))
