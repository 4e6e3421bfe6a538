"""Figures of one take that need no model: level, clipping, steps at the edges of codec frames; and its picture.

A decoder that is run frame by frame, or that treats a frame's first samples unlike the others, leaves a step at each
multiple of the hop. It is found by comparing jumps there with jumps elsewhere, each measured by its surroundings.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from scripts.train_tiny.config import HOP
from ttsbench.models.qwen3_tts.mel import HOP as MEL_HOP
from ttsbench.models.qwen3_tts.mel import log_mel
from ttsbench.score.audio import Audio

FULL_SCALE = 32767 / 32768
LEVEL_FRAME = 480
LEVEL_RANGE_DB = 35.0
"""Frames this far under the loud ones are pauses, and have no part in the level."""
AROUND = 120
"""Samples on either side that a jump is measured by: 5 ms."""
QUIET = 2e-4
"""A typical jump below this is silence, where any rounding looks like an edge."""
INSIDE = 113 * np.arange(1, 16)
"""Places in a frame that its edge is compared with; off the grids on which a decoder of strides 3, 4, 5 and 8 works."""
HIGH_PCT = 90.0
MIN_EDGES = 8


def level_dbfs(samples: np.ndarray) -> float | None:
    """RMS of the spoken part in dB of full scale; None for digital silence."""
    whole = samples[: len(samples) // LEVEL_FRAME * LEVEL_FRAME].reshape(-1, LEVEL_FRAME)
    power = np.square(whole, dtype=np.float64).mean(1)
    if not power.size or not power.max():
        return None
    spoken = power > np.percentile(power, 95) * 10 ** (-LEVEL_RANGE_DB / 10)
    return float(10 * np.log10(power[spoken].mean()))


def clipped_samples(samples: np.ndarray) -> int:
    """Samples at full scale."""
    return int((np.abs(samples) >= FULL_SCALE).sum())


def edge_ratio(samples: np.ndarray, hop: int = HOP) -> float | None:
    """High jumps at frame edges over high jumps inside frames: above 1 there are steps.

    A jump counts in units of the median jump around it; "high" is the 90th percentile, which 11 % of faulty edges move
    and one odd sample does not. None where fewer than 8 edges are in speech.
    """
    jumps = np.abs(np.diff(samples, prepend=samples[:1]))
    edges = np.arange(hop, len(samples) - hop, hop)
    places = np.concatenate([edges, (edges[:, None] + INSIDE).ravel()])
    around = np.arange(-AROUND, AROUND + 1)
    typical = np.median(jumps[places[:, None] + around], axis=1)
    speech = typical > QUIET
    ratio = jumps[places[speech]] / typical[speech]
    at_edge = places[speech] % hop == 0
    if at_edge.sum() < MIN_EDGES or at_edge.all():
        return None
    return float(np.percentile(ratio[at_edge], HIGH_PCT) / np.percentile(ratio[~at_edge], HIGH_PCT))


def draw(path: Path, title: str, sounds: dict[str, Audio]) -> None:
    """A PNG of log mel spectrograms, one below the other, each named. Audio at 24 kHz."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 2.4 * len(sounds) + 0.4), layout="constrained")
    axes = figure.subplots(len(sounds), 1, squeeze=False, sharex=True)[:, 0]
    longest = 0.0
    for axis, (name, sound) in zip(axes, sounds.items(), strict=True):
        mel = log_mel(torch.from_numpy(sound.samples)).numpy().T
        seconds = mel.shape[1] * MEL_HOP / sound.sample_rate_hz
        longest = max(longest, seconds)
        axis.imshow(mel, origin="lower", aspect="auto", extent=(0, seconds, 0, len(mel)), vmin=-9, vmax=1)
        axis.set_ylabel(f"{name}\nmel bin")
    axes[-1].set_xlim(0, longest)
    axes[-1].set_xlabel("s")
    figure.suptitle(title, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
