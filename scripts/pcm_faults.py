"""Faults put into clean audio, to see what the PCM audit finds of them.

Each function takes a clip's samples [S], its hop in samples and a random generator, and returns the broken samples with
the place of the fault, or None where the clip offers none. Where a fault must lie inside speech, the 20 ms on either
side of it hold at least -25 dB of the clip's level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ttsbench.score.pcm.signal import Clip, ratio

SPEECH_DB = -25.0
CROSSFADE_S = 0.005


@dataclass(frozen=True)
class Broken:
    """Samples with a fault in them."""

    samples: np.ndarray
    at: int
    """First sample of the fault: of the second hearing, of the hole, after the cut, of the click."""


Fault = Callable[[np.ndarray, int, int, np.random.Generator], Broken | None]
"""From samples [S], sample rate and hop in samples."""


def replay(frames: int) -> Fault:
    """`frames` frames are played a second time, straight after the first."""

    def fault(samples: np.ndarray, rate: int, hop: int, rng: np.random.Generator) -> Broken | None:
        loud = Clip.of(samples, rate).level * ratio(-10)
        starts = [
            start
            for start in range(hop, len(samples) - (frames + 1) * hop, hop)
            if _power(samples, start, start + frames * hop) > loud
        ]
        if not starts:
            return None
        start = int(rng.choice(starts))
        again = start + frames * hop
        return Broken(np.concatenate([samples[:again], samples[start:]]), again)

    return fault


def gap(samples: np.ndarray, rate: int, hop: int, rng: np.random.Generator) -> Broken | None:
    """80 ms of zeros inside speech, anywhere."""
    length = round(0.08 * rate)
    at = _inside_speech(samples, rate, range(hop, len(samples) - length - hop), length, rng)
    if at is None:
        return None
    broken = samples.copy()
    broken[at : at + length] = 0
    return Broken(broken, at)


def click(least: float, most: float) -> Fault:
    """A step at a frame edge inside speech that dies away over 0.5 ms, its height in amplitudes of the clip's level."""

    def fault(samples: np.ndarray, rate: int, hop: int, rng: np.random.Generator) -> Broken | None:
        at = _inside_speech(samples, rate, range(2 * hop, len(samples) - hop, hop), 0, rng)
        if at is None:
            return None
        height = rng.choice((-1, 1)) * rng.uniform(least, most) * np.sqrt(Clip.of(samples, rate).level)
        broken = samples.astype(np.float64)
        tail = broken[at : at + round(0.02 * rate)]
        tail += height * np.exp(-np.arange(len(tail)) / (5e-4 * rate))
        return Broken(broken, at)

    return fault


def splice(frames: int, crossfade_s: float = 0.0) -> Fault:
    """`frames` frames inside speech are cut out, and the ends joined hard or over a crossfade."""

    def fault(samples: np.ndarray, rate: int, hop: int, rng: np.random.Generator) -> Broken | None:
        at = _inside_speech(samples, rate, range(3 * hop, len(samples) - (frames + 2) * hop, hop), frames * hop, rng)
        if at is None:
            return None
        fade = round(crossfade_s * rate)
        before, after = samples[: at + fade], samples[at + frames * hop :]
        rising = np.linspace(0, 1, fade)
        joint = before[at:] * (1 - rising) + after[:fade] * rising
        return Broken(np.concatenate([before[:at], joint, after[fade:]]), at)

    return fault


def _inside_speech(samples: np.ndarray, rate: int, places: range, length: int, rng: np.random.Generator) -> int | None:
    """A place with speech before it, and after `length` samples from it."""
    side, loud = round(0.02 * rate), Clip.of(samples, rate).level * ratio(SPEECH_DB)
    squares = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64))])
    at = np.asarray(places)
    if not len(at):
        return None
    before, after = squares[at] - squares[at - side], squares[at + length + side] - squares[at + length]
    spoken = at[np.minimum(before, after) > side * loud]
    return int(rng.choice(spoken)) if len(spoken) else None


def _power(samples: np.ndarray, begin: int, end: int) -> float:
    return float(np.square(samples[begin:end], dtype=np.float64).mean())
