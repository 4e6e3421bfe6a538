"""What the talker is trained on: coded utterances, and the sequences that may be made of them.

A sequence is a choice of target, reference, speaker row, language row and text layout. All choices are laid down once,
seeded; training draws among them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from scripts.train_tiny.config import HOP, SPEAKERS, TEXT_TOKENS, speaker_encoder
from scripts.train_tiny.corpus import HELD_OUT, Shard, codes_path, load_shard, read_text, shards
from scripts.train_tiny.layouts import LEAD, NONE, SPEAKER, Choice, Ids, Speech
from scripts.train_tiny.synthesize import NAMED
from scripts.train_tiny.train_speaker import RowsOfMel
from ttsbench.models.qwen3_tts.tokenizer import TextTokenizer

REFERENCES = 3
"""References laid down for each target utterance, one sequence each with the vector alone and with the context."""
VECTOR_BATCH = 64


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
    """Utterances with their codes [sum F, Q] uint8 and phoneme labels [sum F, 4] uint8; `sentence` and `voice` [U]."""

    speech: Speech
    codes: Tensor
    labels: Tensor
    sentence: Tensor
    voice: Tensor


@dataclass(frozen=True)
class Sequences:
    """All sequences over `coded`; `vectors` [U, D] holds the speaker vector of each utterance, for cloning alone."""

    coded: Coded
    choice: Choice
    ids: Ids
    vectors: Tensor | None = None
    vector_of: Tensor | None = None
    """Utterance [n] whose vector a sequence carries."""

    def take(self, entries: Tensor) -> tuple[Choice, Tensor | None]:
        """The choices of `entries`, and their speaker vectors [B, D]."""
        if self.vectors is None or self.vector_of is None:
            return self.choice.take(entries), None
        return self.choice.take(entries), self.vectors[self.vector_of[entries]]

    def training(self) -> Tensor:
        """Indices of the sequences to learn from."""
        return (self.coded.sentence[self.choice.target] >= HELD_OUT).nonzero()[:, 0]

    def held_out(self) -> dict[str, Tensor]:
        """Indices of the sequences that are never trained on, by layout and kind of context."""
        held = self.coded.sentence[self.choice.target] < HELD_OUT
        kinds = {
            "streaming": ~self.choice.non_streaming & (self.choice.reference < 0),
            "non_streaming": self.choice.non_streaming & (self.choice.reference < 0),
            "in_context": self.choice.reference >= 0,
        }
        found = {name: (held & kind).nonzero()[:, 0] for name, kind in kinds.items()}
        return {name: entries for name, entries in found.items() if len(entries)}


def load_named(text: Path, scratch: Path, ids: Ids, device: str) -> Sequences:
    """Every named utterance in both layouts, with and without the language row."""
    coded = _load_coded(text, shards(scratch, "named"), device)
    utterances = torch.arange(len(coded.sentence), device=device)
    control = torch.full((max(NAMED) + 1,), NONE, device=device)
    for speaker, row in zip(SPEAKERS.values(), NAMED, strict=True):
        control[row] = speaker
    variants = [
        Choice(
            target=utterances,
            reference=torch.full_like(utterances, NONE),
            speaker=control[coded.voice],
            english=torch.full_like(utterances, english, dtype=torch.bool),
            non_streaming=torch.full_like(utterances, non_streaming, dtype=torch.bool),
        )
        for english in (False, True)
        for non_streaming in (False, True)
    ]
    return Sequences(coded, _join(variants), ids)


def load_voices(text: Path, scratch: Path, speaker: Path, ids: Ids, device: str, seed: int = 0) -> Sequences:
    """Every `many` utterance with references of its voice: `REFERENCES` times their vector alone, and as often the
    reference in the context too. A context whose text would arrive after the speech that needs it is left out."""
    references = shards(scratch, "reference")
    coded = _load_coded(text, [*references, *shards(scratch, "many")], device)
    vectors = _vectors(references, speaker, len(coded.sentence), device)
    count = sum(len(load_shard(path, "cpu").sentence) for path in references)
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(count, len(coded.sentence))
    voices, of_reference = coded.voice.cpu(), coded.voice[:count].cpu()
    order = torch.argsort(of_reference)
    first = torch.searchsorted(of_reference[order].contiguous(), torch.arange(int(voices.max()) + 2))
    counts = first.diff()[voices[targets]]
    targets, counts = targets[counts > 0], counts[counts > 0]
    variants = []
    for in_context in (False, True):
        for _ in range(REFERENCES):
            pick = (torch.rand(len(targets), generator=generator) * counts).long()
            heard = order[first[voices[targets]] + pick]
            variants.append(_cloning(targets, heard, in_context, generator, device))
    choice = _join([made for made, _ in variants])
    heard = torch.cat([reference for _, reference in variants])
    speech = coded.speech
    late = speech.token_counts[heard] - LEAD + 2 > speech.frame_counts[heard]
    keep = ((choice.reference < 0) | ~late).nonzero()[:, 0]
    return Sequences(coded, choice.take(keep), ids, vectors, heard[keep])


def _cloning(
    targets: Tensor, heard: Tensor, in_context: bool, generator: torch.Generator, device: str
) -> tuple[Choice, Tensor]:
    english = torch.rand(len(targets), generator=generator) < 0.5
    heard = heard.to(device)
    choice = Choice(
        target=targets.to(device),
        reference=heard if in_context else torch.full_like(heard, NONE),
        speaker=torch.full_like(heard, SPEAKER),
        english=english.to(device),
        non_streaming=torch.zeros_like(heard, dtype=torch.bool),
    )
    return choice, heard


def _join(variants: list[Choice]) -> Choice:
    return Choice(
        *(
            torch.cat([getattr(variant, name) for variant in variants])
            for name in ("target", "reference", "speaker", "english", "non_streaming")
        )
    )


def _load_coded(text: Path, paths: list[Path], device: str) -> Coded:
    """Codes, labels and offsets of all utterances in shards whose codes exist."""
    if not paths:
        raise SystemExit("no shards found: run scripts.train_tiny.synthesize first")
    read = read_text(text)
    starts = np.concatenate([[0], np.cumsum(read.token_counts.astype(np.int64))])
    codes, labels, sentence, voice, frames = [], [], [], [], []
    for path in paths:
        shard = load_file(path)
        codes.append(load_file(codes_path(path))["codes"])
        labels.append(shard["labels"])
        sentence.append(shard["sentence"].long())
        voice.append(shard["voice"].long())
        frames.append(shard["frames"].long())
    sentences = torch.cat(sentence)
    counts = torch.from_numpy(read.token_counts.astype(np.int64))[sentences]
    tokens_at = torch.cat((torch.zeros(1, dtype=torch.long), counts.cumsum(0)))
    source = torch.from_numpy(starts)[sentences] - tokens_at[:-1]
    index = torch.arange(int(tokens_at[-1])) + source.repeat_interleave(counts)
    tokens = torch.from_numpy(read.tokens.astype(np.int64))[index]
    frames_at = torch.cat((torch.zeros(1, dtype=torch.long), torch.cat(frames).cumsum(0)))
    spoken = torch.from_numpy(read.spoken_counts.astype(np.int64))[sentences]
    speech = Speech(*(x.to(device) for x in (tokens, tokens_at, frames_at, spoken)))
    columns = (torch.cat(codes), torch.cat(labels), sentences, torch.cat(voice))
    coded, labelled, sentence_of, voice_of = (column.to(device) for column in columns)
    return Coded(speech, coded, labelled, sentence_of, voice_of)


@torch.no_grad()
def _vectors(references: list[Path], weights: Path, utterances: int, device: str) -> Tensor:
    """Speaker vectors [U, D] of the reference utterances, which come first; zeros for the others."""
    encoder = speaker_encoder().to(device).eval()
    encoder.load_state_dict({name: x.float() for name, x in load_file(weights).items()})
    mel = RowsOfMel(encoder.config.mel_dim, torch.device(device))
    vectors = torch.zeros(utterances, encoder.config.enc_dim, device=device)
    done = 0
    for path in references:
        shard = load_shard(path, device)
        for frames in sorted(set(shard.frames.tolist())):
            same = (shard.frames == frames).nonzero()[:, 0]
            for part in same.split(VECTOR_BATCH):
                vectors[part + done] = encoder(mel(_wav(shard, part, frames)))
        done += len(shard.frames)
    return vectors


def _wav(shard: Shard, utterances: Tensor, frames: int) -> Tensor:
    """Audio [n, frames * hop] float of utterances of equal length."""
    rows = shard.offsets[utterances][:, None] + torch.arange(frames, device=utterances.device)
    return shard.audio[rows].reshape(len(utterances), frames * HOP).float() / 32768
