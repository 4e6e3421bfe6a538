"""What the pieces of the training hand to each other: the text, and shards of speech.

A shard is one safetensors file of whole utterances, `KIND-00012.safetensors`. It appears under its name only when it is
complete, so a piece that is started again skips what exists.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from scripts.train_tiny.voices import is_held

SLOTS = 4
"""Labels of a codec frame: one for every 20 ms."""
HELD_OUT_PARTS = {"listening": 60, "losses": 200}
HELD_OUT = sum(HELD_OUT_PARTS.values())
"""Sentences at the head of the text that no model trains on: some to listen to, then those for losses."""
LEVEL = 0.063
"""Root mean square of the speech in every utterance, full scale 1: voices and sentences are equally loud."""
KINDS = ("named", "many", "reference")


@dataclass(frozen=True)
class Text:
    """Sentences as teacher symbols and as text tokens. The arrays of all sentences lie end to end."""

    phonemes: np.ndarray
    """Teacher symbol ids, uint8 [sum P]."""
    phoneme_counts: np.ndarray
    tokens: np.ndarray
    """Text token ids with the closing mark, without a template, uint16 [sum T]."""
    token_counts: np.ndarray
    spoken_counts: np.ndarray
    """Tokens before the trailing run of . ? ! ,"""
    starts_word: np.ndarray
    """bool [vocabulary]: the token begins with a space."""

    def __post_init__(self) -> None:
        sizes = (len(self.phonemes), int(self.phoneme_counts.sum())), (len(self.tokens), int(self.token_counts.sum()))
        if any(have != promised for have, promised in sizes):
            raise ValueError(f"text.npz: arrays and counts disagree: {sizes}")

    def __len__(self) -> int:
        return len(self.phoneme_counts)

    @cached_property
    def phoneme_starts(self) -> np.ndarray:
        """int64 [N + 1]"""
        return _starts(self.phoneme_counts)

    @cached_property
    def token_starts(self) -> np.ndarray:
        """int64 [N + 1]"""
        return _starts(self.token_counts)

    def symbols(self, sentence: int) -> np.ndarray:
        """uint8 [P]"""
        return self.phonemes[self.phoneme_starts[sentence] : self.phoneme_starts[sentence + 1]]

    def token_ids(self, sentence: int) -> np.ndarray:
        """uint16 [T]"""
        return self.tokens[self.token_starts[sentence] : self.token_starts[sentence + 1]]


def read_text(folder: Path) -> Text:
    """`text.npz` of a TEXT folder."""
    with np.load(folder / "text.npz") as stored:
        return Text(**{name: stored[name] for name in Text.__dataclass_fields__})


@dataclass(frozen=True)
class Shard:
    """U utterances of F codec frames in all, end to end."""

    audio: Tensor
    """int16 [F, 1920]"""
    labels: Tensor
    """Teacher symbol heard in every 20 ms, uint8 [F, 4]; 0 is silence."""
    said: Tensor
    """Index in its sentence of the token spoken in each frame, uint8 [F], or `pace.NO_TOKEN`."""
    sentence: Tensor
    """int32 [U]"""
    voice: Tensor
    """Row of `voices.Voices`, int32 [U]."""
    frames: Tensor
    """int32 [U]"""
    offsets: Tensor
    """First frame of every utterance and the end of the last, int64 [U + 1]."""

    def held_frames(self) -> Tensor:
        """bool [F]: what no codec trains on, sentences and voices that are held out."""
        return ((self.sentence < HELD_OUT) | is_held(self.voice)).repeat_interleave(self.frames)


def load_shard(path: Path, device: torch.device | str = "cpu") -> Shard:
    """Raises ValueError when the utterances do not make up the frames."""
    stored = load_file(path, device=str(device))
    offsets = torch.cat([stored["frames"].new_zeros(1), stored["frames"].cumsum(0)]).long()
    if int(offsets[-1]) != len(stored["audio"]) or len(stored["labels"]) != len(stored["audio"]):
        raise ValueError(f"{path}: {int(offsets[-1])} frames of utterances, {len(stored['audio'])} of audio")
    return Shard(**stored, offsets=offsets)


def shard_path(folder: Path, kind: str, index: int) -> Path:
    return folder / f"{kind}-{index:05d}.safetensors"


def shards(folder: Path, kind: str) -> list[Path]:
    """Complete shards of one kind, in order; the files beside them (codes) are not among them."""
    return sorted(path for path in folder.glob(f"{kind}-*.safetensors") if path.name.count(".") == 1)


def codes_path(shard: Path) -> Path:
    """The codes beside a shard, as the fit constructs them: what a talker shall say."""
    return shard.with_name(f"{shard.stem}.codes.safetensors")


def heard_path(shard: Path) -> Path:
    """The codes beside a shard, as the trained encoder hears them: what a talker is given of a reference."""
    return shard.with_name(f"{shard.stem}.heard.safetensors")


def echo_path(shard: Path) -> Path:
    """The sound beside a shard that the codec's decoder makes of its codes."""
    return shard.with_name(f"{shard.stem}.echo.safetensors")


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, part)
    part.replace(path)


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
