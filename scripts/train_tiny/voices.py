"""The voices that the teacher lends: its own, and any number more that are drawn around them.

A style is a point in 256 dimensions: its first half colours the voice, the second the prosody. The 20 published voices
that training may hear (`TRAIN`) span 19 of them, and the voices kept for judging lie far outside of that span, so that
blends of the 20 do not come near them. A drawn voice is therefore blended *and* moved: each half is a random
combination of the 20 about their mean, plus a step in a random direction as long as what of one of the 20 lies outside
of the span of the others. Its pitch is moved apart from that.

Row r below 20 is the published voice `TRAIN[r]`. Any other row is a voice of its own that depends on r alone, so two
pieces that know a row speak of the same voice. Every `HELD_EVERY`-th drawn voice is heard in no training.

Shapes: R rows, P symbols of a sentence, E = 256 style width.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

TRAIN = [
    "af_heart", "af_bella", "af_alloy", "af_aoede", "af_jessica", "af_kore", "af_nicole", "af_sarah", "af_sky",
    "am_adam", "am_echo", "am_fenrir", "am_michael", "am_onyx", "am_puck", "am_santa",
    "bf_alice", "bf_lily", "bm_daniel", "bm_lewis",
]  # fmt: skip
"""Published voices that training may hear, in the order of their rows; the others are drawn around them."""
UNSEEN = ["bf_emma", "bf_isabella", "bm_fable", "bm_george", "af_nova", "af_river", "am_eric", "am_liam"]
"""Published voices kept out of every training, the speaker encoder's too: cloning is judged on them."""
NAMED = {"heart": "af_heart", "bella": "af_bella", "michael": "am_michael", "fenrir": "am_fenrir"}
"""Speakers of `tiny` and the teacher's names for them."""
NAMED_ROWS = tuple(TRAIN.index(voice) for voice in NAMED.values())
OWN = len(TRAIN)
"""Rows before this one are the teacher's own voices."""
HELD_EVERY = 25
ACOUSTIC = 128
"""Width of a style's first half."""
INSIDE, OUTSIDE = 1.0, 0.69
"""How far a drawn half goes within the span of the teacher's voices, where 1 is as far as these spread, and how far out
of it, in their mean distance from their mean: when one of the 20 is rebuilt from the others, 0.69 of it is missed.

Chosen among four distributions because its voices are spread like real ones, with heard and unheard voices about
equally deep among them (docs/measurements.md).
"""
PITCH = 0.16
"""The logarithm of a drawn voice's pitch over its style's is uniform in plus and minus this."""
SEED = 20_261_130

Rows = TypeVar("Rows", np.ndarray, Tensor)


def is_held(rows: Rows) -> Rows:
    """bool [R]: no model trains on these voices."""
    return (rows >= OWN) & (rows % HELD_EVERY == HELD_EVERY - 1)


class Voices:
    """Styles of the rows below `count`. Raises ValueError when the TEACHER folder has other voices or another order."""

    def __init__(self, teacher: Path, device: torch.device | str, count: int = OWN) -> None:
        with np.load(teacher / "part1" / "voices.npz") as stored:
            if (names := stored["names"].tolist()[:OWN]) != TRAIN:
                raise ValueError(f"{teacher}/part1/voices.npz: expected first {TRAIN}, got {names}")
            styles = stored["styles"].astype(np.float32)
        self._styles = torch.from_numpy(styles).to(device)
        deviations = styles[:OWN].mean(1) - styles[:OWN].mean((0, 1))
        drawn = [_drawn(row, deviations) for row in range(OWN, count)]
        still = np.zeros(styles.shape[2], np.float32)
        own = [(np.eye(OWN, dtype=np.float32)[[row, row]], still, 1.0) for row in range(OWN)]
        weights, steps, pitch = zip(*own, *drawn, strict=True)
        self._weights = torch.from_numpy(np.stack(weights)).to(device)
        """[R, 2, 20]: of the published voices in the two halves; they sum to one."""
        self._steps = torch.from_numpy(np.stack(steps)).to(device)
        """[R, E]: what no blend reaches."""
        self._pitch = torch.tensor(pitch, dtype=torch.float32, device=device)

    def __len__(self) -> int:
        return len(self._pitch)

    def style(self, rows: Tensor, count: int) -> Tensor:
        """float32 [R, E] of `rows` int64 [R] for a sentence of `count` symbols."""
        return self._blend(rows, self._styles[:OWN, count - 1])

    def mean_style(self, rows: Tensor) -> Tensor:
        """float32 [R, E]: the middle of a row's styles over all lengths of sentences."""
        return self._blend(rows, self._styles[:OWN].mean(1))

    def pitch(self, rows: Tensor) -> Tensor:
        """float32 [R]: pitch over what the style alone would give."""
        return self._pitch[rows]

    def _blend(self, rows: Tensor, styles: Tensor) -> Tensor:
        colour, prosody = self._weights[rows].unbind(1)
        blended = torch.cat((colour @ styles[:, :ACOUSTIC], prosody @ styles[:, ACOUSTIC:]), 1)
        return blended + self._steps[rows]


def _drawn(row: int, deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Weights [2, 20], step [E] and pitch of a drawn voice; `deviations` [20, E] of the published ones."""
    random = np.random.default_rng([SEED, row])
    weights = INSIDE * random.standard_normal((2, OWN)) / OWN**0.5
    weights += (1 - weights.sum(1, keepdims=True)) / OWN
    step = random.standard_normal(deviations.shape[1]) * deviations.std(0)
    for half in (slice(None, ACOUSTIC), slice(ACOUSTIC, None)):
        far = OUTSIDE * np.linalg.norm(deviations[:, half], axis=1).mean()
        step[half] *= far / np.linalg.norm(step[half])
    return weights.astype(np.float32), step.astype(np.float32), float(np.exp(random.uniform(-PITCH, PITCH)))
