"""Sounds to break: bundled clips of speech, and a hum."""

from __future__ import annotations

from functools import cache

import numpy as np
import soundfile

from ttsbench.assets import asset_folder
from ttsbench.records.pcm import FaultKind, PcmFinding
from ttsbench.score.pcm.audit import Heard, hear
from ttsbench.score.pcm.joints import Bars
from ttsbench.score.pcm.signal import Clip

RATE_HZ = 24_000
HOP = 1920
HOP_S = HOP / RATE_HZ
VOICES = ("af_bella", "am_michael", "bf_emma", "bm_fable")


@cache
def speech(voice: str = "af_bella") -> np.ndarray:
    """A bundled reference clip, float64, 24 kHz, about 4.5 s; do not write into it."""
    path = asset_folder("mini_en") / "en" / "prompt-wavs" / f"{voice}.wav"
    samples, rate = soundfile.read(path, dtype="float64")
    assert rate == RATE_HZ
    samples.flags.writeable = False
    return np.asarray(samples)


@cache
def bars() -> Bars:
    """What makes a joint in these voices."""
    clips = [heard.joints for heard in map(heard_in, VOICES)]
    return Bars.of([clip for clip in clips if clip is not None])


@cache
def heard_in(voice: str) -> Heard:
    return hear(speech(voice), RATE_HZ, HOP_S)


def hum(seconds: float = 4.0, hertz: float = 120.0) -> np.ndarray:
    """A steady tone with overtones."""
    time = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    return np.sum([np.sin(2 * np.pi * hertz * k * time) / k for k in range(1, 8)], axis=0) * 0.1


def found(samples: np.ndarray, kind: FaultKind, rate_hz: int = RATE_HZ) -> list[PcmFinding]:
    """Findings of one kind."""
    return [one for one in hear(samples, rate_hz, HOP_S).findings(bars()) if one.kind is kind]


def loud_edge(samples: np.ndarray, margin: int = 3) -> int:
    """The frame edge with most speech on both sides, as a sample."""
    edges = range(margin * HOP, len(samples) - margin * HOP, HOP)
    return max(
        edges, key=lambda at: min(np.square(samples[at - 480 : at]).sum(), np.square(samples[at : at + 480]).sum())
    )


def amplitude(samples: np.ndarray) -> float:
    """Amplitude of the clip's level."""
    return float(np.sqrt(Clip.of(samples, RATE_HZ).level))
