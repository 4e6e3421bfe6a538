"""Sequences for cloning: every target with a reference of its voice, drawn anew for every sequence.

A talker that meets the same references again and again learns each of them by heart, where their words end too, and
then understands no other. So any utterance of a voice may be the reference of any other one. Its silences are trimmed
at random, it may break off before one of its words, and half of the speaker vectors are of an utterance drawn apart.
What is measured is of voices and target sentences that no training sequence has; what its references say may be a
sentence that other voices said in training.

Shapes: U utterances, n sequences, D width of a speaker vector.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from scripts.train_tiny.config import HOP, speaker_encoder
from scripts.train_tiny.corpus import HELD_OUT, Shard, load_shard, shards
from scripts.train_tiny.layouts import NONE, SPEAKER, Choice, Ids
from scripts.train_tiny.pace import LEAD
from scripts.train_tiny.talker_data import Coded, Drawn, load_coded
from scripts.train_tiny.train_speaker import RowsOfMel
from scripts.train_tiny.voices import is_held

KINDS = ("reference", "many")
POOL = 150_000
"""Sequences drawn at a time to learn from."""
HELD_POOL = 4_000
IN_CONTEXT, NON_STREAMING, ENGLISH = 0.6, 1 / 3, 0.5
"""Parts of the sequences."""
BROKEN_OFF = 0.2
"""Part of the paced references that end before one of their words, of at least SHORTEST tokens."""
SHORTEST = 8
OTHER_VECTOR = 0.5
"""Part of the sequences whose speaker vector is that of another draw than the utterance which is, or would be, in the
context; once in a while both draws are one utterance."""
VECTOR_BATCH = 256


class Cloning:
    """Sequences over the `many` and `reference` shards."""

    def __init__(self, coded: Coded, vectors: Tensor, ids: Ids, pool: int = POOL) -> None:
        self.coded, self.vectors, self.ids, self.pool = coded, vectors, ids, pool
        self._order = coded.voice.argsort(stable=True)
        self._count = coded.voice.bincount()[coded.voice]
        place = torch.empty_like(self._order)
        place[self._order] = torch.arange(len(place), device=place.device)
        self._first = torch.searchsorted(coded.voice[self._order].contiguous(), coded.voice)
        self._place = place - self._first
        self._head, self._tail = coded.quiet()
        held = is_held(coded.voice)
        can = coded.paced & (self._count > 1)
        self._targets = (can & ~held & (coded.sentence >= HELD_OUT)).nonzero()[:, 0]
        self._held_targets = (can & held & (coded.sentence < HELD_OUT)).nonzero()[:, 0]

    def training(self) -> Drawn:
        return self._draw(self._targets, self.pool)

    def held_out(self) -> Drawn:
        return self._draw(self._held_targets, HELD_POOL) if len(self._held_targets) else self._draw(self._targets, 0)

    def _draw(self, targets: Tensor, count: int) -> Drawn:
        """About `count` sequences: a context whose text would come after the speech that needs it is left out."""
        target = targets[torch.randint(max(1, len(targets)), (count,), device=targets.device)]
        one, other = self._another(target), self._another(target)
        lengths = self.coded.speech.frame_counts
        longer = lengths[one] > lengths[other]  # users' clips are rather long
        reference, apart = torch.where(longer, one, other), torch.where(longer, other, one)
        skipped, frames, tokens = self._span(reference)
        context = self._some(IN_CONTEXT, target)
        wide = self._some(NON_STREAMING, target)
        choice = Choice(
            target=target,
            reference=torch.where(context, reference, NONE),
            skipped=torch.where(context, skipped, 0),
            frames=torch.where(context, frames, 0),
            tokens=torch.where(context, tokens, 0),
            speaker=torch.full_like(target, SPEAKER),
            english=self._some(ENGLISH, target),
            non_streaming=wide,
        )
        voiced_by = torch.where(self._some(OTHER_VECTOR, target), apart, reference)
        late = context & ~wide & (tokens - LEAD > frames)
        return Drawn(choice, voiced_by).take((~late).nonzero()[:, 0])

    def _another(self, utterances: Tensor) -> Tensor:
        """Another utterance [n] of the voice of each of `utterances` [n]."""
        count = self._count[utterances]
        step = 1 + (torch.rand(len(count), device=count.device) * (count - 1)).long()
        return self._order[self._first[utterances] + (self._place[utterances] + step) % count]

    def _span(self, reference: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Frames to leave out at the head of each reference [n], frames and tokens to keep."""
        speech, coded = self.coded.speech, self.coded
        head, tail = (
            (torch.rand(len(reference), device=quiet.device) * (quiet[reference] + 1)).long()
            for quiet in (self._head, self._tail)
        )
        frames, tokens = speech.frame_counts[reference] - head - tail, speech.token_counts[reference]
        start = speech.tokens_at[reference]
        until = (torch.rand(len(reference), device=start.device) * coded.spoken[reference]).long()
        broken = coded.word_at[start + until] - start
        off = self._some(BROKEN_OFF, reference) & coded.paced[reference] & (broken >= SHORTEST)
        return head, torch.where(off, LEAD + broken - head, frames), torch.where(off, broken, tokens)

    @staticmethod
    def _some(part: float, like: Tensor) -> Tensor:
        return torch.rand(len(like), device=like.device) < part


def load_cloning(text: Path, scratch: Path, speaker: Path, ids: Ids, device: str) -> Cloning:
    """The shards of both kinds with their speaker vectors."""
    paths = [path for kind in KINDS for path in shards(scratch, kind)]
    return Cloning(load_coded(text, scratch, KINDS, device, heard=True), _vectors(paths, speaker, device), ids)


@torch.no_grad()
def _vectors(paths: list[Path], weights: Path, device: str) -> Tensor:
    """Speaker vectors [U, D] of all utterances."""
    encoder = speaker_encoder().to(device).eval()
    encoder.load_state_dict({name: x.float() for name, x in load_file(weights).items()})
    mel = RowsOfMel(encoder.config.mel_dim, torch.device(device))
    found = []
    for path in paths:
        shard = load_shard(path, device)
        vectors = torch.empty(len(shard.frames), encoder.config.enc_dim, device=device)
        for frames in sorted(set(shard.frames.tolist())):
            for part in (shard.frames == frames).nonzero()[:, 0].split(VECTOR_BATCH):
                vectors[part] = encoder(mel(_wav(shard, part, frames)))
        found.append(vectors)
    return torch.cat(found)


def _wav(shard: Shard, utterances: Tensor, frames: int) -> Tensor:
    """Audio [n, frames * hop] float of utterances of equal length."""
    rows = shard.offsets[utterances][:, None] + torch.arange(frames, device=utterances.device)
    return shard.audio[rows].reshape(len(utterances), frames * HOP).float() / 32768
