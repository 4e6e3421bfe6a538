"""Speaks the text with the teacher, in shards.

    python -m scripts.train_tiny.synthesize --text TEXT --teacher TEACHER --out SCRATCH --kind named --hours 40

named      the four voices of `tiny` by turns over the whole text, paced (see `pace`)
many       every sentence in a random voice, paced; those that are held out in held-out voices, the others in the others
reference  medium sentences at their natural pace in random voices, as users' clips are: what a voice is cloned from

Which utterances a shard holds and how they sound is decided by the seed and the shard's number alone. So the work can
be divided (`--part 0/2`), cut short by a deadline, and taken up again: shards that exist are skipped.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from scripts.train_tiny import pace
from scripts.train_tiny.config import FRAMES_A_SECOND, HOP
from scripts.train_tiny.corpus import HELD_OUT, KINDS, LEVEL, SLOTS, Text, read_text, save_tensors, shard_path
from scripts.train_tiny.kokoro import Kokoro
from scripts.train_tiny.pace import SAMPLES
from scripts.train_tiny.voices import NAMED_ROWS, OWN, Voices, is_held

VOICES = 5000
"""So many that no model can learn them by heart: each speaks some twenty sentences."""
OWN_SHARE = 0.1
"""Of the utterances of many voices, in the teacher's own."""
REFERENCE_TOKENS = (24, 64)
SPEEDS = (0.9, 1.15)
SILENCE = (3, 7)
"""Teacher frames before and after a reference clip (from, below)."""

REFERENCE_DB = (-5.0, 8.0)
"""Level of reference clips against `corpus.LEVEL`: users' clips are not levelled, and codes depend on the level."""
LOUDEST = 6.0
"""No utterance is amplified more: what is that quiet has failed, and failure shall not be loud."""

FRAMES = ("audio", "labels", "said")
"""Tensors of a shard that have a row for every codec frame."""
READ_ROWS = 384
"""Rows of a text batch."""
SPEAK_FRAMES = {"cuda": 8000, "cpu": 600}
"""Teacher frames of a vocoder batch: as many as fill the device, and on a CPU as few as stay near its caches."""


@dataclass(frozen=True)
class Utterances:
    """What is to be said, in order: arrays of one length."""

    sentence: np.ndarray
    voice: np.ndarray
    frames: np.ndarray
    """Codec frames; an estimate where the pace is natural."""

    def __getitem__(self, which: slice | np.ndarray) -> Utterances:
        return Utterances(self.sentence[which], self.voice[which], self.frames[which])

    def __len__(self) -> int:
        return len(self.sentence)

    @property
    def starts(self) -> np.ndarray:
        """Codec frames before each utterance."""
        return self.frames.cumsum() - self.frames


def planned(kind: str, text: Text, voices: int, hours: float, seed: int) -> Utterances:
    """Whole passes over the text, cut when the hours are full; held-out sentences come first in each pass."""
    random = np.random.default_rng([seed, KINDS.index(kind)])
    lengths = text.spoken_counts.astype(np.int64) + pace.LEAD + pace.TAIL
    wanted, have = hours * 3600 * FRAMES_A_SECOND, 0
    sentences: list[np.ndarray] = []
    chosen: list[np.ndarray] = []
    while have < wanted:
        order, rows = _one_pass(kind, text, voices, len(sentences), random)
        sentences.append(order)
        chosen.append(rows)
        have += int(lengths[order].sum())
    sentence, voice = np.concatenate(sentences), np.concatenate(chosen)
    utterances = Utterances(sentence, voice, lengths[sentence])
    return utterances[utterances.starts < wanted]


def _one_pass(kind: str, text: Text, voices: int, number: int, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    everything = np.arange(len(text))
    if kind == "named":
        return everything, np.array(NAMED_ROWS)[(everything + number) % len(NAMED_ROWS)]
    if kind == "many":
        order = np.concatenate([everything[:HELD_OUT], random.permutation(everything[HELD_OUT:])])
        held = is_held(np.arange(voices))
        return order, np.where(order < HELD_OUT, _cast(random, held, len(order)), _cast(random, ~held, len(order)))
    low, high = REFERENCE_TOKENS
    fits = everything[(text.spoken_counts >= low) & (text.spoken_counts <= high) & (everything >= HELD_OUT)]
    return random.permutation(fits), _cast(random, np.ones(voices, bool), len(fits))


def _cast(random: np.random.Generator, may: np.ndarray, count: int) -> np.ndarray:
    """`count` voices of those that `may` [R] speak: drawn ones, and where they may the teacher's own now and then."""
    own, drawn = np.flatnonzero(may[:OWN]), np.flatnonzero(may[OWN:]) + OWN
    cast = random.choice(drawn, count)
    return np.where(random.random(count) < OWN_SHARE, random.choice(own, count), cast) if len(own) else cast


def in_shards(utterances: Utterances, hours: float) -> list[Utterances]:
    """Consecutive stretches of about `hours` each. A shard that is full does not depend on how many follow."""
    number = (utterances.starts / (hours * 3600 * FRAMES_A_SECOND)).astype(np.int64)
    return [utterances[number == index] for index in range(int(number[-1]) + 1)]


@dataclass
class Script:
    """A shard between the two halves of the teacher: all symbols end to end, and how long each lasts."""

    prosody: Tensor
    sounds: Tensor
    durations: Tensor
    labels: Tensor
    progress: Tensor
    """As `pace.Progress.flat`."""
    style: Tensor
    """[U, 256]; utterances in the order of `sentence`."""
    pitch: Tensor
    """[U]"""
    sentence: np.ndarray
    voice: np.ndarray
    frames: np.ndarray
    starts: np.ndarray
    """First symbol of every utterance, int64 [U + 1]."""
    gain: np.ndarray
    """Of every utterance over the common level, float32 [U]."""
    cut: tuple[int, int]
    """Teacher frames to take off the head and the end of every utterance."""


class Studio:
    """The teacher with a text before it."""

    def __init__(self, text: Text, teacher: Path, voices: int, device: torch.device, limits: pace.Limits) -> None:
        self.text, self.device, self.limits = text, device, limits
        self.kokoro, self.voices = Kokoro.load(teacher, device), Voices(teacher, device, voices)

    def shard(self, kind: str, utterances: Utterances, seed: int) -> dict[str, Tensor]:
        """The tensors of a shard. Utterances whose pace would be too far from natural are left out."""
        torch.manual_seed(seed)
        script = self._read(kind, utterances, np.random.default_rng(seed))
        groups = list(_equal_frames(script.frames, SPEAK_FRAMES[self.device.type]))
        spoken = [self._speak(script, group) for group in groups]
        order = np.concatenate(groups)
        return {
            **{name: torch.cat(parts) for name, parts in zip(FRAMES, zip(*spoken, strict=True), strict=True)},
            **{name: torch.from_numpy(getattr(script, name)[order].astype(np.int32))
               for name in ("sentence", "voice", "frames")},
        }  # fmt: skip

    def _read(self, kind: str, utterances: Utterances, random: np.random.Generator) -> Script:
        """The text side, in batches of equal symbol count."""
        counts = self.text.phoneme_counts[utterances.sentence]
        batches = [
            utterances[chosen[start : start + READ_ROWS]]
            for count in np.unique(counts)
            for chosen in [np.flatnonzero(counts == count)]
            for start in range(0, len(chosen), READ_ROWS)
        ]
        parts = [self._read_batch(kind, batch, random) for batch in batches]
        columns = [torch.cat(column) for column in zip(*parts, strict=True)]
        prosody, sounds, durations, labels, progress, style, pitch, frames, good = columns
        sentence = np.concatenate([batch.sentence for batch in batches])
        starts = np.concatenate([[0], np.cumsum(self.text.phoneme_counts[sentence].astype(np.int64) + 2)])
        # The one wait for the device in a shard: how many frames there are decides the vocoder's batches.
        lengths = np.where(good.cpu().numpy(), frames.cpu().numpy(), 0)
        voice = np.concatenate([batch.voice for batch in batches])
        louder, cut = np.zeros(len(voice)), (0, 0)
        if kind == "reference":
            louder, cut = random.uniform(*REFERENCE_DB, len(voice)), (pace.RUN_UP, pace.RUN_OUT)
        gain = (10 ** (louder / 20)).astype(np.float32)
        flat = prosody, sounds, durations, labels, progress
        return Script(*flat, style, pitch, sentence, voice, lengths, starts, gain, cut)

    def _read_batch(self, kind: str, batch: Utterances, random: np.random.Generator) -> tuple[Tensor, ...]:
        symbols = self._put(np.stack([self.text.symbols(index) for index in batch.sentence]).astype(np.int64))
        rows = self._put(batch.voice)
        style = self.voices.style(rows, symbols.shape[1])
        read, words = self.kokoro.read(symbols, style), self._words(batch)
        if kind == "reference":
            speed = self._put(random.uniform(*SPEEDS, len(batch)).astype(np.float32))
            before, after = (self._put(random.integers(*SILENCE, len(batch))) for _ in range(2))
            durations, frames = pace.natural(read.durations, symbols, speed, before, after)
            good = torch.ones_like(frames, dtype=torch.bool)
            progress = pace.natural_progress(durations, symbols, words)
        else:
            plan = pace.paced(read.durations, symbols, words)
            durations, frames, good = plan.durations, self._put(batch.frames), plan.within(self.limits)
            progress = pace.paced_progress(symbols, words)
        labels = pace.sounding(torch.nn.functional.pad(symbols, (1, 1)))
        flat = (part.flatten(0, 1) for part in (read.prosody, read.sounds, durations, labels.to(torch.uint8)))
        return (*flat, progress.flat(), style, self.voices.pitch(rows), frames, good)

    def _words(self, batch: Utterances) -> Tensor:
        """Tokens of every word, int64 [B, T]."""
        spoken = self.text.spoken_counts[batch.sentence].astype(np.int64)
        starts = np.zeros((len(batch), int(spoken.max())), bool)
        for row, sentence, count in zip(starts, batch.sentence, spoken, strict=True):
            row[:count] = self.text.starts_word[self.text.token_ids(sentence)[:count]]
        return pace.word_tokens(self._put(starts), self._put(spoken))

    def _speak(self, script: Script, group: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """One batch of equal frame count: int16 [B * F, 1920], uint8 [B * F, 4] and uint8 [B * F]."""
        frames, rows = int(script.frames[group[0]]), len(group)
        symbols = self._put(np.concatenate([np.arange(*script.starts[index : index + 2]) for index in group]))
        head, kept = script.cut[0], pace.teacher_frames(frames)
        length = sum(script.cut) + kept
        owner = symbols.repeat_interleave(script.durations[symbols], output_size=rows * length).view(rows, length)
        said = self._put(group)
        wave = self.kokoro.speak(script.prosody[owner], script.sounds[owner], script.style[said], script.pitch[said])
        owner, wave = owner[:, head : head + kept], wave[:, head * SAMPLES : (head + kept) * SAMPLES]
        wave = levelled(wave, script.labels[pace.heard(owner, owner.shape[1], SAMPLES)] >= pace.FIRST_SOUND)
        wave = wave * self._put(script.gain[group])[:, None]
        wave = wave / wave.abs().amax(1, keepdim=True).clamp(min=1)  # rather less loud than clipped
        audio = (wave[:, : frames * HOP] * 32767).round().to(torch.int16)
        labels = script.labels[pace.heard(owner, frames * SLOTS, HOP // SLOTS)]
        said = pace.tokens_said(script.progress[pace.heard(owner, frames, HOP)], head)
        return audio.view(-1, HOP), labels.view(-1, SLOTS), said.flatten()

    def _put(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.device, non_blocking=True)


def levelled(wave: Tensor, speech: Tensor) -> Tensor:
    """float [B, N * 600] scaled so that the teacher frames that hold speech (bool [B, N]) have the common level."""
    power = wave.view(len(wave), -1, SAMPLES).square().mean(2)
    mean = (power * speech).sum(1) / speech.sum(1).clamp(min=1)
    return wave * (LEVEL / mean.sqrt().clamp(min=1e-6)).clamp(max=LOUDEST)[:, None]


def _equal_frames(frames: np.ndarray, batch: int) -> Iterator[np.ndarray]:
    """Utterances of the same length, `batch` teacher frames at a time; those of length 0 were left out."""
    for length in np.unique(frames[frames > 0]):
        chosen = np.flatnonzero(frames == length)
        rows = max(1, int(batch / (length * pace.RATIO)))
        yield from (chosen[start : start + rows] for start in range(0, len(chosen), rows))


def run(options: argparse.Namespace) -> None:
    """Shards of this part until they are all there or the next one would end too late."""
    started = time.monotonic()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    device = torch.device(options.device)
    text = read_text(options.text)
    limits = pace.Limits(tuple(options.word_stretch), tuple(options.sentence_stretch))
    studio = Studio(text, options.teacher, options.voices, device, limits)
    everything = planned(options.kind, text, options.voices, options.hours, options.seed)[: options.limit]
    part, parts = (int(number) for number in options.part.split("/"))
    saved: Future[None] | None = None
    longest = 0.0
    with ThreadPoolExecutor(1) as writer:
        for index, utterances in enumerate(in_shards(everything, options.shard_hours)):
            path = shard_path(options.out, options.kind, index)
            if index % parts != part or path.exists():
                continue
            began = time.monotonic()
            if began - started + longest > options.seconds:
                print(f"{options.kind}: out of time before shard {index}", flush=True)
                break
            tensors = studio.shard(
                options.kind, utterances, seed=(options.seed * 3 + KINDS.index(options.kind)) * 100_000 + index
            )
            if saved is not None:
                saved.result()  # a failure to write ends the run; and no more than two shards are held
            saved = writer.submit(save_tensors, path, tensors)
            longest = max(longest, time.monotonic() - began)
            _report(path, utterances, tensors, time.monotonic() - began)
        if saved is not None:
            saved.result()


def _report(path: Path, utterances: Utterances, tensors: dict[str, Tensor], seconds: float) -> None:
    hours, kept = len(tensors["audio"]) / FRAMES_A_SECOND / 3600, len(tensors["frames"])
    speed = f"{hours * 3600 / seconds:.1f} times real time"
    print(f"{path.name}: {kept} of {len(utterances)} utterances, {hours:.2f} h, {speed}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("text", "teacher", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--hours", type=float, required=True, help="of speech, before utterances are left out")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no shard is begun that would end later")
    parser.add_argument("--voices", type=int, default=VOICES, help="rows of `Voices` that many and reference may use")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="0/1", help="i/n: every n-th shard from i on")
    parser.add_argument("--shard-hours", type=float, default=4.0)
    parser.add_argument("--limit", type=int, help="utterances at most, for a rehearsal")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--word-stretch", type=float, nargs=2, default=pace.Limits().word, metavar=("LOW", "HIGH"))
    parser.add_argument(
        "--sentence-stretch", type=float, nargs=2, default=pace.Limits().sentence, metavar=("LOW", "HIGH")
    )
    run(parser.parse_args())


if __name__ == "__main__":
    main()
