"""The weights of the PCM audit's joints, fitted to clean runs with faults put into them.

    python -m scripts.fit_pcm_seams RUN... [--seed 0]

Logistic regression of each kind of joint against what clean clips hold: splices against frame edges with speech on both
sides, clicks against all frame edges, clicks anywhere against those and every other sharp point, and clicks against
splices. Prints the constants of `ttsbench.score.pcm.joints`, and the largest scores of clean clips, above which the
bars must lie. Measure with `scripts.check_pcm_audit` on runs that were not used here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

from scripts.pcm_faults import Fault, click, splice
from ttsbench.score.pcm.joints import PEAK_OVER_MEAN_DB, Weights
from ttsbench.score.pcm.seam import SPOKEN_DB, Traits, frame_edges
from ttsbench.score.pcm.signal import ANALYSIS_RATE_HZ, Clip, count
from ttsbench.score.source import RunSource

FAULTS_PER_CLIP = 4
RIDGE = 1.0
STEPS = 30
NEAR_EDGE = count(0.0003)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="clean run folders")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    clips = [clip for run in asked.runs for clip in _clips(RunSource.open(run))]
    edges, spoken, sharp = (np.concatenate(parts) for parts in zip(*(_clean(*clip) for clip in clips), strict=True))
    splices, clicks = _faults(clips, splice(25), rng), _faults(clips, click(0.3, 1.5), rng)
    print(f"{len(clips)} clips, {len(edges)} edges, {len(splices)} splices, {len(clicks)} clicks")
    for name, positive, negative, rising in (
        ("SPLICE_AT_EDGE", splices, spoken, False),
        ("CLICK_AT_EDGE", clicks, edges, True),
        ("CLICK_ANYWHERE", clicks, np.concatenate([edges, sharp]), True),
        ("CLICK_OVER_SPLICE", clicks, splices, False),
    ):
        weights = _fit_rising(positive, negative) if rising else _fit(positive, negative)
        top = np.sort(weights.of(negative))[:-6:-1].round(2)
        found = [round(float((weights.of(positive) > bar).mean()), 3) for bar in (top[0], 0.0)]
        print(name, weights, f"largest of clean {top}, found above {found[0]}, above 0 {found[1]}")


def _clips(source: RunSource) -> Iterator[tuple[np.ndarray, int, int]]:
    """Samples, rate and hop of each row."""
    engine = source.manifest.engine
    for _, record in source.rows():
        if record is not None and record.wav_path is not None:
            samples, rate = soundfile.read(source.folder.path / record.wav_path, dtype="float64")
            yield samples, rate, engine.hop_samples


def _clean(samples: np.ndarray, rate: int, hop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of a clean clip's frame edges, of those inside speech, and of sharp points elsewhere."""
    traits = Traits.of(Clip.of(samples, rate))
    edges = frame_edges(traits.clip, hop / rate)
    sharp = traits.peaks(PEAK_OVER_MEAN_DB)
    near = np.abs(sharp[:, None] - edges).min(axis=1, initial=len(samples)) <= NEAR_EDGE
    features = traits.features(edges)
    return features, features[traits.quieter_side_db(edges) > SPOKEN_DB], traits.features(sharp[~near])


def _faults(clips: list[tuple[np.ndarray, int, int]], fault: Fault, rng: np.random.Generator) -> np.ndarray:
    """Features at the faults, [faults, features]."""
    found = []
    for samples, rate, hop in clips:
        for _ in range(FAULTS_PER_CLIP):
            made = fault(samples, rate, hop, rng)
            if made is not None:
                clip = Clip.of(made.samples, rate)
                at = round((made.at / rate - clip.offset_s) * ANALYSIS_RATE_HZ)
                found.append(Traits.of(clip).features(np.array([at])))
    return np.concatenate(found)


def _fit_rising(positive: np.ndarray, negative: np.ndarray) -> Weights:
    """As `_fit`, no weight below zero, so that a larger click never counts for less: the most negative goes first."""
    kept = list(range(positive.shape[1]))
    while True:
        weights = _fit(positive[:, kept], negative[:, kept])
        worst = int(np.argmin(weights.factors))
        if weights.factors[worst] >= 0:
            factors = dict(zip(kept, weights.factors, strict=True))
            return Weights(tuple(factors.get(i, 0.0) for i in range(positive.shape[1])), weights.constant)
        del kept[worst]


def _fit(positive: np.ndarray, negative: np.ndarray) -> Weights:
    """Log odds of the first against the second, by Newton's method with a ridge on standardised features."""
    both = np.concatenate([positive, negative])
    mean, spread = both.mean(axis=0), both.std(axis=0)
    inputs = np.concatenate([(both - mean) / spread, np.ones((len(both), 1))], axis=1)
    target = np.arange(len(both)) < len(positive)
    weights = np.zeros(inputs.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (chance - target) + RIDGE * weights
        bend = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + RIDGE * np.eye(len(weights))
        weights -= np.linalg.solve(bend, slope)
    factors = weights[:-1] / spread
    return Weights(tuple(factors.round(3).tolist()), round(float(weights[-1] - factors @ mean), 2))


if __name__ == "__main__":
    main()
