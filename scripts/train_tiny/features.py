"""The features that codes are made of.

A codec frame has eight rows of log-mel energies, one per 10 ms. Every window ends inside its frame, so a causal encoder
can know all of them at the end of the frame. The floor of 1e-2 is some 40 dB below speech: what lies under it is
silence, and a loss or a codebook spent on it would be wasted.

Shapes: N frames of one or more utterances in a row.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from scripts.train_tiny.config import HOP, SAMPLE_RATE_HZ
from scripts.train_tiny.corpus import Shard

N_FFT = 1024
ROW_HOP = 240
BINS = 80
ROWS = HOP // ROW_HOP
"""Mel rows of a codec frame."""
FEATURES = ROWS * BINS
BEFORE = N_FFT - ROW_HOP
"""Samples before its frame that the first window of a frame sees."""
FLOOR = 1e-2
CHUNK = 4096
"""Frames at a time: their spectra take about 0.4 GB."""


def frame_features(audio: Tensor, starts: Tensor) -> Tensor:
    """Features [N, FEATURES] of frames `audio` [N, HOP], int16 or float in [-1, 1].

    `starts` [N] bool marks the frames with silence before them: the first of each utterance. Frame 0 is always one.
    """
    if len(audio) <= CHUNK:
        return _features(_as_float(audio), starts)
    pieces = [_features(_as_float(audio[:CHUNK]), starts[:CHUNK])]
    for at in range(CHUNK, len(audio), CHUNK):
        piece = _features(_as_float(audio[at - 1 : at + CHUNK]), starts[at - 1 : at + CHUNK])
        pieces.append(piece[1:])
    return torch.cat(pieces)


def shard_features(shard: Shard) -> Tensor:
    """Features [sum F, FEATURES] of a shard, each utterance with silence before it."""
    starts = torch.zeros(len(shard.audio), dtype=torch.bool, device=shard.audio.device)
    starts[shard.offsets[:-1]] = True
    return frame_features(shard.audio, starts)


def _features(audio: Tensor, starts: Tensor) -> Tensor:
    before = F.pad(audio[:-1, -BEFORE:], (0, 0, 1, 0)).masked_fill(starts[:, None], 0)
    windows = torch.cat((before, audio), 1).unfold(1, N_FFT, ROW_HOP)
    magnitude = torch.fft.rfft(windows * torch.hann_window(N_FFT, device=audio.device)).abs()
    return log_mel(magnitude, mel_filters(N_FFT, BINS, audio.device)).flatten(1)


def _as_float(audio: Tensor) -> Tensor:
    return audio.float() / 32768 if audio.dtype == torch.int16 else audio


def log_mel(magnitude: Tensor, filters: Tensor) -> Tensor:
    """log10 of mel energies [..., bins] of magnitudes [..., n_fft / 2 + 1], floored."""
    return (magnitude @ filters).clamp(min=FLOOR).log10()


@lru_cache(maxsize=16)
def mel_filters(n_fft: int, bins: int, device: torch.device) -> Tensor:
    """Triangles of height 1 [n_fft / 2 + 1, bins], evenly spaced in mel from 0 Hz to half the sample rate."""
    top = 2595 * math.log10(1 + SAMPLE_RATE_HZ / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, bins + 2, dtype=torch.float64) / 2595) - 1)
    hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, n_fft // 2 + 1, dtype=torch.float64)[:, None]
    lower, centre, upper = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (hz - lower) / (centre - lower), (upper - hz) / (upper - centre)
    return torch.minimum(rising, falling).clamp(min=0).float().to(device)
