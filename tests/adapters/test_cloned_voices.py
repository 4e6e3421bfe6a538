"""Cloned voices of the embedded checkpoint, heard by the embedded speaker encoder: each row speaks with its own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import soxr

from tests.adapters.test_native import clip, profile
from tests.cli.harness import CLIPS
from ttsbench.adapters.native import NativeEngine
from ttsbench.core import ReferenceVoice, SpeechRequest
from ttsbench.corpus import load_reference_24k
from ttsbench.score.speaker.ge2e import Ge2eEncoder

HEART, GEORGE, FENRIR = "af_heart", "bm_george", "am_fenrir"
"""A woman and a man whose clips are the least alike of the bundled eight (cosine 0.44), and another man."""
TEXTS = (
    "The small boat drifted slowly down the river while we watched.",
    "Please close the window before the rain comes in tonight.",
    "She counted seven white geese crossing the frozen field.",
    "Nobody had seen the old man since the end of the summer.",
)
HEARD_S = 2
BATCH = 8


def words_of(name: str) -> str:
    """What a bundled clip says."""
    lines = (CLIPS.parent / "meta.lst").read_text(encoding="utf-8").splitlines()
    return next(words for _, words, path, _ in (line.split("|") for line in lines) if Path(path).stem == name)


@cache
def encoder() -> Ge2eEncoder:
    return Ge2eEncoder.load()


def vector(pcm_24k: np.ndarray) -> np.ndarray:
    return encoder().embed(np.asarray(soxr.resample(pcm_24k, 24_000, 16_000), np.float32))


@cache
def references() -> dict[str, np.ndarray]:
    """Vectors of all bundled clips."""
    return {path.stem: vector(load_reference_24k(path)) for path in sorted(CLIPS.glob("*.wav"))}


def nearest(pcm: np.ndarray) -> str:
    """Whose clip the first seconds are nearest to, of all eight."""
    assert len(pcm) >= HEARD_S * 24_000
    heard = vector(pcm[: HEARD_S * 24_000])
    return max(references(), key=lambda name: float(references()[name] @ heard))


def speak(engine: NativeEngine, voices: list[ReferenceVoice], seed: int) -> list[np.ndarray]:
    """A batch of one request per voice, 2.2 s each."""
    sampling = engine.info().default_sampling
    for number, voice in enumerate(voices):
        text = TEXTS[number // 2 % len(TEXTS)]
        asked = SpeechRequest(
            f"r{number}", f"r{number}", text, voice, seed=seed + number, max_frames=28, language="english",
            sampling=sampling,
        )  # fmt: skip
        engine.submit(asked)
    heard: list[list[np.ndarray]] = [[] for _ in voices]
    for chunk in engine.chunks():
        heard[int(chunk.request_id[1:])].append(chunk.pcm)
    return [np.concatenate(pieces) for pieces in heard]


@pytest.fixture(scope="module")
def engine() -> NativeEngine:
    return NativeEngine("tiny-base", profile(max_num_seqs=BATCH))


def test_two_speakers_who_alternate_keep_their_own_voices(engine: NativeEngine, tmp_path: Path) -> None:
    """Two batches of eight, every other row another speaker, all in context; then one speaker's clip is overwritten and
    the rows under its old path have the new voice. Nearest of all eight clips, not of the two alone.

    Goes red when rows of a batch exchange conditionings (the cache answering with the entry used last), or when
    references are cached by path.
    """
    paths = {name: tmp_path / f"{name}.wav" for name in (HEART, GEORGE)}
    for name, path in paths.items():
        path.write_bytes(clip(name))
    voices = {name: ReferenceVoice(path, words_of(name)) for name, path in paths.items()}
    alternating = [HEART, GEORGE] * (BATCH // 2)
    for seed in (0, 100):
        heard = speak(engine, [voices[name] for name in alternating], seed)
        assert [nearest(pcm) for pcm in heard] == alternating
    paths[GEORGE].write_bytes(clip(FENRIR))
    voices[GEORGE] = ReferenceVoice(paths[GEORGE], words_of(FENRIR))
    heard = speak(engine, [voices[name] for name in alternating], seed=0)
    assert [nearest(pcm) for pcm in heard] == [FENRIR if name == GEORGE else name for name in alternating]
    told = engine.stats()["references"]
    assert (told["hits"], told["misses"], told["encoded"]) == (21, 3, 3)
