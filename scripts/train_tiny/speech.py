"""Speech in the memory of the device, for the codec's two trainers: crops to learn from, and what is held out.

Crops start on a codec frame and may run over the end of an utterance into the next: sound has no reason to care.

Shapes: N frames, B crops, F frames of a crop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from scripts.train_tiny.codes import Fit, encode
from scripts.train_tiny.config import FRAMES_A_SECOND
from scripts.train_tiny.corpus import load_shard, shards
from scripts.train_tiny.features import shard_features

HELD_FRAMES = 2048
"""Held-out frames that are kept: more would only make every log line slower."""


@dataclass(frozen=True)
class Speech:
    """Frames `audio` [N, HOP] int16 with their `codes` [N, Q] uint8, utterance after utterance."""

    audio: Tensor
    codes: Tensor

    def __len__(self) -> int:
        return len(self.audio)

    def crops(self, count: int, frames: int) -> tuple[Tensor, Tensor]:
        """Random crops: waves [B, F * HOP] float and codes [B, F, Q] int64."""
        device = self.audio.device
        start = torch.randint(len(self) - frames + 1, (count, 1), device=device)
        return self._rows(start + torch.arange(frames, device=device))

    def in_order(self, frames: int) -> tuple[Tensor, Tensor]:
        """All of it as consecutive crops of `frames` frames; what is left over at the end is not heard."""
        whole = len(self) // frames * frames
        return self._rows(torch.arange(whole, device=self.audio.device).view(-1, frames))

    def _rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return (self.audio[rows].float() / 32768).flatten(1), self.codes[rows].long()


def load_speech(
    folder: Path, kinds: Sequence[str], hours: float, fit: Fit, device: torch.device
) -> tuple[Speech, Speech]:
    """Training speech of at most about `hours`, as much of every kind as there is, and speech of held-out
    sentences and voices.

    The codes are made here, by construction: cheaper than to wait for the files that have them.
    """
    training, held = [], []
    for kind in kinds:
        wanted = hours * 3600 * FRAMES_A_SECOND / len(kinds)
        for path in shards(folder, kind):
            if wanted <= 0:
                break
            shard = load_shard(path, device)
            codes = encode(fit, shard_features(shard))
            out = shard.held_frames()
            training.append((shard.audio[~out], codes[~out]))
            held.append((shard.audio[out][:HELD_FRAMES], codes[out][:HELD_FRAMES]))
            wanted -= len(codes)
    if not training:
        raise SystemExit(f"no shards of {', '.join(kinds)} in {folder}: run the teacher first")
    return _joined(training, None), _joined(held, HELD_FRAMES)


def _joined(pieces: list[tuple[Tensor, Tensor]], at_most: int | None) -> Speech:
    audio, codes = zip(*pieces, strict=True)
    return Speech(torch.cat(audio)[:at_most], torch.cat(codes)[:at_most])
