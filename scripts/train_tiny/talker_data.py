"""What the talker is trained on: coded utterances, and the sequences that may be made of them.

A sequence is a choice of target, speaker row, language row and text layout. `Named` lays all of them down once.
`Cloning` draws others each time it is asked: see `references`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from scripts.train_tiny.config import SPEAKERS, TEXT_TOKENS
from scripts.train_tiny.corpus import HELD_OUT, codes_path, heard_path, read_text, shards
from scripts.train_tiny.layouts import NONE, Choice, Ids, Speech
from scripts.train_tiny.pace import FIRST_SOUND
from scripts.train_tiny.voices import NAMED_ROWS
from ttsbench.models.qwen3_tts.tokenizer import TextTokenizer

COLUMNS = ("labels", "said", "sentence", "voice", "frames")


def text_ids(folder: Path) -> Ids:
    """Ids of the tokenizer in the TEXT folder."""
    tokenizer = TextTokenizer.from_folder(folder)
    listed = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["added_tokens_decoder"]
    named = {token["content"]: int(number) for number, token in listed.items()}
    start, pad, bos, eos = (
        named[TEXT_TOKENS[f"{key}_token_id"]] for key in ("im_start", "tts_pad", "tts_bos", "tts_eos")
    )
    return Ids((start, tokenizer.assistant, tokenizer.newline), pad, bos, eos)


@dataclass(frozen=True)
class Coded:
    """Utterances: `codes` [rows, Q] uint8 as constructed and, `speech.heard` rows further on, as heard; phoneme
    `labels` [sum F, 4] uint8; `sentence` and `voice` [U]; the token at which each token's word starts, `word_at`
    [sum T]; `spoken` [U] tokens before the closing mark; `paced` [U]: whether its words stand on their tokens."""

    speech: Speech
    codes: Tensor
    labels: Tensor
    sentence: Tensor
    voice: Tensor
    word_at: Tensor
    spoken: Tensor
    paced: Tensor

    def quiet(self) -> tuple[Tensor, Tensor]:
        """Frames [U] before the first sound of each utterance, and after its last."""
        sounds = (self.labels >= FIRST_SOUND).any(1)
        starts, ends = self.speech.frames_at[:-1], self.speech.frames_at[1:]
        row = torch.arange(len(sounds), device=sounds.device)
        owner = torch.repeat_interleave(self.speech.frame_counts)
        first = ends.scatter_reduce(0, owner, torch.where(sounds, row, len(row)), "amin")
        after = starts.scatter_reduce(0, owner, torch.where(sounds, row + 1, 0), "amax")
        return first - starts, ends - after


@dataclass(frozen=True)
class Drawn:
    """Sequences [n], and the utterance whose speaker vector each carries."""

    choice: Choice
    voiced_by: Tensor | None = None

    def take(self, index: Tensor) -> Drawn:
        """The sequences `index`."""
        return Drawn(self.choice.take(index), None if self.voiced_by is None else self.voiced_by[index])

    def by_kind(self) -> dict[str, Drawn]:
        """The sequences of each layout with and without a context, where there are any."""
        wide, context = self.choice.non_streaming, self.choice.reference >= 0
        kinds = {
            "streaming": ~wide & ~context,
            "non_streaming": wide & ~context,
            "in_context": ~wide & context,
            "in_context_non_streaming": wide & context,
        }
        found = {name: self.take(kind.nonzero()[:, 0]) for name, kind in kinds.items()}
        return {name: drawn for name, drawn in found.items() if len(drawn.choice.target)}


class Sequences(Protocol):
    """Where sequences come from."""

    coded: Coded
    ids: Ids

    @property
    def vectors(self) -> Tensor | None:
        """Speaker vectors [U, D], for cloning alone."""

    def training(self) -> Drawn:
        """Sequences to learn from; other ones each time, where there are more than can be laid down."""

    def held_out(self) -> Drawn:
        """Sequences of target sentences, and when cloning of voices, that are never trained on."""


class Named:
    """Every named utterance in both layouts, with and without the language row."""

    vectors = None

    def __init__(self, coded: Coded, ids: Ids) -> None:
        self.coded, self.ids = coded, ids
        utterances = torch.arange(len(coded.sentence), device=coded.voice.device)
        control = torch.full((max(NAMED_ROWS) + 1,), NONE, device=utterances.device)
        for speaker, row in zip(SPEAKERS.values(), NAMED_ROWS, strict=True):
            control[row] = speaker
        nothing = torch.zeros_like(utterances)
        variants = [
            Choice(
                target=utterances, reference=nothing + NONE,
                skipped=nothing, frames=nothing, tokens=nothing,
                speaker=control[coded.voice], english=(nothing + english).bool(), non_streaming=(nothing + wide).bool(),
            )
            for english in (0, 1)
            for wide in (0, 1)
        ]  # fmt: skip
        self._all = Drawn(Choice(*(torch.cat([getattr(v, field.name) for v in variants]) for field in fields(Choice))))
        self._held = coded.sentence[self._all.choice.target] < HELD_OUT

    def training(self) -> Drawn:
        return self._all.take((~self._held).nonzero()[:, 0])

    def held_out(self) -> Drawn:
        return self._all.take(self._held.nonzero()[:, 0])


def load_named(text: Path, scratch: Path, ids: Ids, device: str) -> Named:
    """The `named` shards."""
    return Named(load_coded(text, scratch, ("named",), device), ids)


def load_coded(text: Path, scratch: Path, kinds: tuple[str, ...], device: str, heard: bool = False) -> Coded:
    """Codes, labels and offsets of all utterances in the shards of `kinds`; `heard`: with the encoder's codes."""
    paths = [path for kind in kinds for path in shards(scratch, kind)]
    if not paths:
        raise SystemExit("no shards found: run scripts.train_tiny.synthesize first")
    needed = [beside(path) for path in paths for beside in ((codes_path, heard_path) if heard else (codes_path,))]
    if lacking := [path.name for path in needed if not path.exists()]:
        first, more = lacking[0], len(lacking) - 1
        raise SystemExit(f"{scratch}: no {first} (and {more} more): run scripts.train_tiny.encode_shards first")
    read = read_text(text)
    files = [_without_audio(path) for path in paths]
    labels, said, sentence, voice, frames = (torch.cat([file[name] for file in files]) for name in COLUMNS)
    codes = [load_file(codes_path(path))["codes"] for path in paths]
    codes += [load_file(heard_path(path))["codes"] for path in paths] if heard else []
    paced = torch.cat([
        torch.full((len(file["frames"]),), not path.name.startswith("reference"))
        for file, path in zip(files, paths, strict=True)
    ])  # fmt: skip
    sentence, voice, frames = sentence.long(), voice.long(), frames.long()
    counts = torch.from_numpy(read.token_counts.astype(np.int64))[sentence]
    tokens_at, frames_at = (torch.cat((x.new_zeros(1), x.cumsum(0))) for x in (counts, frames))
    source = torch.from_numpy(read.token_starts)[sentence] - tokens_at[:-1]
    place = torch.arange(int(tokens_at[-1]))
    tokens = torch.from_numpy(read.tokens.astype(np.int64))[place + source.repeat_interleave(counts)]
    starts = torch.from_numpy(read.starts_word)[tokens]
    starts[tokens_at[:-1]] = True
    word_at = torch.where(starts, place, 0).cummax(0).values
    spoken = torch.from_numpy(read.spoken_counts.astype(np.int64))[sentence]
    speech = Speech(
        tokens=tokens.to(device), tokens_at=tokens_at.to(device), frames_at=frames_at.to(device),
        said=said.to(device), heard=len(labels) if heard else 0,
    )  # fmt: skip
    columns = (torch.cat(codes), labels, sentence, voice, word_at, spoken, paced)
    return Coded(speech, *(column.to(device) for column in columns))


def _without_audio(path: Path) -> dict[str, Tensor]:
    """The small tensors of a shard."""
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in COLUMNS}
