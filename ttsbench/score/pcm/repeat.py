"""Stretches that are played twice.

Every 160 ms of sound is looked for in what follows it, by normalised correlation at a low rate; the best few hits are
then compared at the full rate, moved by the exact lag, 10 ms at a time. A replay agrees with its source down to
rounding, or as far as a decoder with another context agrees with itself; two sayings of one word do not agree at all. A
hum agrees with itself at every lag, so a stretch that is like its own near surroundings counts as no replay.

Frames that were repeated before they were decoded sound the same only once the decoder has forgotten what came before:
such a replay is found, but as beginning that much later than it does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import soxr

from ttsbench.records.pcm import FaultKind, PcmFinding
from ttsbench.score.pcm.signal import ANALYSIS_RATE_HZ, Clip, count, ratio, runs

SEARCH_RATE_HZ = 4000
SEGMENT_S, STEP_S = 0.16, 0.08
LONGEST_LAG_S = 12.0
SEGMENT_DB = -30.0
"""Least power of a segment looked for, against the clip's level."""
LIKENESS = 0.75
"""Least correlation of a hit, before the lag is exact."""
HITS = 6
"""Hits compared in full, best first."""
BLOCK = count(0.01)
AGREEMENT_DB = 12.0
"""Least power of a block over its difference from the source."""
INAUDIBLE_DB = -65.0
"""A block this far under the clip's level agrees with any other such."""
SHORTEST_S = 0.2
GAP_BLOCKS = 2
"""Blocks that may disagree inside a stretch."""
HUM_LIKENESS = 0.97
TYPICAL_PCT, WORSE_DB = 95.0, 6.0
"""How far the ends of a stretch may differ: from the source by so much more than loud blocks do."""


def find_repeats(clip: Clip) -> list[PcmFinding]:
    """Every stretch heard before, longest first."""
    found: list[PcmFinding] = []
    for begin, lag in _hits(clip):
        one = _compare(clip, begin, lag)
        if one is not None and not any(_overlap(one, other) for other in found):
            found.append(one)
    return found


def _hits(clip: Clip) -> list[tuple[int, float]]:
    """Start of a segment and the lag at which it seems to come again, in analysis samples; the likeliest first."""
    if clip.level == 0:
        return []
    slow = soxr.resample(clip.samples, ANALYSIS_RATE_HZ, SEARCH_RATE_HZ, quality="HQ")
    hits = sorted(_correlate(slow, clip.level), reverse=True)
    scale = ANALYSIS_RATE_HZ / SEARCH_RATE_HZ
    chosen: list[tuple[int, float]] = []
    for _, begin, lag in hits:
        if len(chosen) == HITS:
            break
        if all(abs(lag * scale - other) > count(0.001) for _, other in chosen):
            chosen.append((round(begin * scale), lag * scale))
    return chosen


def _correlate(slow: np.ndarray, level: float) -> Iterator[tuple[float, int, int]]:
    """Likeness, start and lag of the best match of each audible segment with what follows it."""
    segment, step, reach = (round(s * SEARCH_RATE_HZ) for s in (SEGMENT_S, STEP_S, LONGEST_LAG_S))
    summed = np.concatenate([[0.0], np.cumsum(np.square(slow))])
    for begin in range(0, len(slow) - 2 * segment, step):
        template = slow[begin : begin + segment]
        energy = float(np.square(template).sum())
        if energy < segment * level * ratio(SEGMENT_DB):
            continue
        first = begin + step
        later = slow[first : begin + segment + reach]
        size = 1 << (len(later) - 1).bit_length()
        dots = np.fft.irfft(np.fft.rfft(later, size) * np.conj(np.fft.rfft(template, size)), size)
        places = len(later) - segment + 1
        energies = summed[first + segment : first + segment + places] - summed[first : first + places]
        likeness = dots[:places] / np.sqrt(np.maximum(energies, energy * ratio(-20)) * energy)
        best = int(likeness.argmax())
        if likeness[best] > LIKENESS:
            yield float(likeness[best]), begin, best + step


def _compare(clip: Clip, begin: int, coarse: float) -> PcmFinding | None:
    lag = _exact_lag(clip.samples, begin, coarse)
    ahead = _moved(clip.samples, lag)
    blocks = (len(clip.samples) - int(np.ceil(lag))) // BLOCK
    if blocks <= 0:
        return None
    here = clip.samples[: blocks * BLOCK].reshape(blocks, BLOCK)
    there = ahead[: blocks * BLOCK].reshape(blocks, BLOCK)
    power = np.square(here).mean(axis=1)
    error = np.square(here - there).mean(axis=1)
    inaudible = clip.level * ratio(INAUDIBLE_DB)
    agree = error <= np.maximum(power * ratio(-AGREEMENT_DB), inaudible)
    audible, loud = power > inaudible, power > clip.level * ratio(SEGMENT_DB)
    for first, end in runs(_bridged(agree)):
        inside = first <= begin // BLOCK + count(SEGMENT_S) // (2 * BLOCK) < end
        if not inside or audible[first:end].sum() * BLOCK < count(SHORTEST_S) or not loud[first:end].any():
            continue
        if _is_hum(clip.samples[first * BLOCK : end * BLOCK]):
            return None
        first, end = _trimmed(first, end, error, loud)
        strength = 10 * np.log10(power[first:end].sum() / max(error[first:end].sum(), power[first:end].sum() * 1e-6))
        return PcmFinding(
            kind=FaultKind.REPEAT,
            start_s=clip.at_s(round(first * BLOCK + lag)),
            length_s=float((end - first) * BLOCK / ANALYSIS_RATE_HZ),
            strength=float(strength),
            source_s=clip.at_s(int(first * BLOCK)),
        )
    return None


def _trimmed(first: int, end: int, error: np.ndarray, loud: np.ndarray) -> tuple[int, int]:
    """The stretch without what agrees worse than its loud blocks do: quiet beside an exact replay is no part of it."""
    typical = np.percentile(error[first:end][loud[first:end]], TYPICAL_PCT)
    fitting = first + np.flatnonzero(error[first:end] <= typical * ratio(WORSE_DB))
    return int(fitting[0]), int(fitting[-1]) + 1


def _exact_lag(samples: np.ndarray, begin: int, coarse: float) -> float:
    """The lag to a small part of a sample: the top of the correlation around `coarse`, read between samples."""
    width, reach, finer = count(SEGMENT_S), count(0.001), 16
    template = samples[begin : begin + width]
    first = max(0, begin + round(coarse) - reach)
    later = samples[first : first + width + 2 * reach]
    template = template[: len(later)]
    size = 1 << (len(later) + width).bit_length()
    spectrum = np.fft.rfft(later, size) * np.conj(np.fft.rfft(template, size))
    dots = np.fft.irfft(spectrum, size * finer)[: 2 * reach * finer + 1]
    return first - begin + int(dots.argmax()) / finer


def _moved(samples: np.ndarray, lag: float) -> np.ndarray:
    """`samples` earlier by `lag`, which need not be whole, [S]."""
    size = 1 << len(samples).bit_length()
    turn = np.exp(2j * np.pi * np.fft.rfftfreq(size) * lag)
    return np.asarray(np.fft.irfft(np.fft.rfft(samples, size) * turn, size)[: len(samples)])


def _bridged(agree: np.ndarray) -> np.ndarray:
    """`agree` with short gaps between agreeing blocks closed."""
    closed = agree.copy()
    for first, end in runs(~agree):
        if first > 0 and end < len(agree) and end - first <= GAP_BLOCKS:
            closed[first:end] = True
    return closed


def _is_hum(stretch: np.ndarray) -> bool:
    """Whether the stretch is like itself a few milliseconds on."""
    size = 1 << (2 * len(stretch)).bit_length()
    dots = np.fft.irfft(np.square(np.abs(np.fft.rfft(stretch, size))), size)
    squares = np.concatenate([[0.0], np.cumsum(np.square(stretch))])
    lags = np.arange(count(0.0025), min(count(0.08), len(stretch) // 2))
    energies = np.sqrt(squares[len(stretch) - lags] * (squares[-1] - squares[lags]))
    return bool((dots[lags] / np.maximum(energies, np.finfo(np.float64).tiny)).max(initial=0.0) > HUM_LIKENESS)


def _overlap(one: PcmFinding, other: PcmFinding) -> bool:
    return one.start_s < other.start_s + other.length_s and other.start_s < one.start_s + one.length_s
