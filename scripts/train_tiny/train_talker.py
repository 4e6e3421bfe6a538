"""Train the talker and the code predictor of one checkpoint on coded speech.

    python -m scripts.train_tiny.train_talker --kind tiny --text TEXT --scratch SCRATCH --out RUN --seconds 900
    python -m scripts.train_tiny.train_talker --kind tiny-base --speaker RUN/speaker.safetensors ...

`tiny` reads `named` shards, in both text layouts. `tiny-base` reads `many` shards with the vector of another utterance
of the voice, a `reference`, half of the time with that reference in the context. Sequences of about equal length form
buckets; every bucket has the same number of positions a step and its own captured graph. Writes
`RUN/talker-<kind>.safetensors`, and beside it the state and the log of `loop.Training`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor, nn

from scripts.train_tiny.config import Kind, talker_modules
from scripts.train_tiny.corpus import save_tensors
from scripts.train_tiny.layouts import Rows, arrange, length
from scripts.train_tiny.loop import Budget, Training, adamw, cosine, graphed
from scripts.train_tiny.talker_data import Coded, Sequences, load_named, load_voices, text_ids
from scripts.train_tiny.talker_model import Corruption, Losses, TalkerModel, initialise, losses

PHONEME_WEIGHT = 0.3
FOCUS_WEIGHT = 0.3
DROPOUT = 0.1
BETAS = (0.9, 0.98)
WEIGHT_DECAY = 0.1
CLIP = 1.0
HELD_OUT_ROWS = 256


@dataclass(frozen=True)
class Sizes:
    """Positions a step, frames a step whose later codes are learned, and the bucket lengths [S]."""

    positions: int
    sampled: int
    lengths: tuple[int, ...]


class Bucket:
    """Sequences of at most `steps` positions: static input buffers, their draw, and the step that reads them."""

    def __init__(self, sequences: Sequences, entries: Tensor, steps: int, sizes: Sizes) -> None:
        self.rows = max(1, sizes.positions // steps)
        self.entries = entries
        self.steps = steps
        self._sequences = sequences
        self._ids = sequences.ids
        device = entries.device
        empty = torch.zeros(self.rows, steps, dtype=torch.long, device=device)
        self.batch = Rows(*(empty.clone() for _ in fields(Rows)))
        self.sampled = torch.zeros(sizes.sampled, dtype=torch.long, device=device)
        self.speakers = None if sequences.vectors is None else sequences.vectors[:1].repeat(self.rows, 1)

    def draw(self) -> None:
        """Fill the buffers with random sequences."""
        index = torch.randint(len(self.entries), (self.rows,), device=self.entries.device)
        choice, speakers = self._sequences.take(self.entries[index])
        made = arrange(self._sequences.coded.speech, choice, self.steps, self._ids)
        for field in fields(Rows):
            getattr(self.batch, field.name).copy_(getattr(made, field.name))
        frames = (made.goal.flatten() >= 0).float()
        self.sampled.copy_(torch.multinomial(frames, len(self.sampled), replacement=True))
        if self.speakers is not None and speakers is not None:
            self.speakers.copy_(speakers)


def make_buckets(sequences: Sequences, entries: Tensor, sizes: Sizes) -> list[Bucket]:
    """Buckets by length; sequences longer than the longest are left out."""
    lengths = length(sequences.coded.speech, sequences.choice.take(entries))
    buckets, shortest = [], 0
    for steps in sizes.lengths:
        inside = entries[(lengths > shortest) & (lengths <= steps)]
        shortest = steps
        if len(inside):
            buckets.append(Bucket(sequences, inside, steps, sizes))
    return buckets


class Trainer:
    """Model, optimizer and one captured step per bucket."""

    def __init__(self, model: TalkerModel, coded: Coded, out: Path, name: str, budget: Budget) -> None:
        self.model = model
        self.coded = coded
        self.device = coded.codes.device
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self._parameters = list(model.parameters())
        self.optimizer, self.rate = adamw({"model": model}, BETAS, WEIGHT_DECAY)
        self.training = Training(name, out, budget, {"model": model, "optimizer": self.optimizer})
        self.figures = torch.zeros(8, device=self.device)

    def step(self, bucket: Bucket) -> None:
        """One update on what the bucket's buffers hold."""
        found = losses(
            self.model,
            bucket.batch,
            self.coded.codes,
            self.coded.labels,
            bucket.sampled,
            bucket.speakers,
            self.dtype,
            Corruption(),
        )
        self.optimizer.zero_grad(set_to_none=True)
        found.total(PHONEME_WEIGHT, FOCUS_WEIGHT).backward()
        norm = nn.utils.clip_grad_norm_(self._parameters, CLIP)
        self.optimizer.step()
        with torch.no_grad():
            self.figures.lerp_(torch.stack([*_figures(found), norm]).float(), 0.03)


def _figures(found: Losses) -> list[Tensor]:
    return [
        found.first.detach(),
        found.books.detach().mean(),
        found.phonemes.detach(),
        found.focus.detach(),
        found.first_right,
        found.phonemes_right,
        found.focus_right,
    ]


FIGURES = ("first", "books", "phonemes", "focus", "first_right", "phonemes_right", "focus_right")


@torch.no_grad()
def held_out(trainer: Trainer, buckets: dict[str, Bucket]) -> dict[str, dict[str, float]]:
    """Losses with the true history on fixed held-out sequences, by kind of sequence."""
    trainer.model.eval()
    result = {}
    for name, bucket in buckets.items():
        found = losses(
            trainer.model,
            bucket.batch,
            trainer.coded.codes,
            trainer.coded.labels,
            bucket.sampled,
            bucket.speakers,
            trainer.dtype,
            None,
        )
        result[name] = {key: round(float(x), 3) for key, x in zip(FIGURES, _figures(found), strict=True)}
    trainer.model.train()
    return result


def run(trainer: Trainer, buckets: list[Bucket], held: dict[str, Bucket], peak: float, out: Path, kind: Kind) -> None:
    """The training loop."""
    steps: list[Callable[[], None]] = []
    for bucket in buckets:
        bucket.draw()
        steps.append(graphed(lambda bucket=bucket: trainer.step(bucket)))  # type: ignore[misc]
    weights = torch.tensor([len(bucket.entries) / bucket.rows for bucket in buckets])
    training, generator = trainer.training, torch.Generator().manual_seed(trainer.training.step)
    order = torch.multinomial(weights, 1_000_000, replacement=True, generator=generator).tolist()
    written = time.monotonic()
    for progress in training:
        trainer.rate.fill_(cosine(progress, peak))
        which = order[training.step % len(order)]
        buckets[which].draw()
        steps[which]()
        if training.due():
            figures = dict(zip((*FIGURES, "norm"), (float(x) for x in trainer.figures), strict=True))
            training.log(progress=progress, **figures, held=held_out(trainer, held))
        if time.monotonic() - written > 60:
            written = time.monotonic()
            write(trainer.model, out, kind)
    training.log(progress=1.0, held=held_out(trainer, held))
    write(trainer.model, out, kind)


def write(model: TalkerModel, out: Path, kind: Kind) -> None:
    """The talker's weights in half precision, under their published names."""
    model.spread_idle_rows()
    tensors = {name: p.detach().half().cpu().contiguous() for name, p in model.talker.state_dict().items()}
    save_tensors(out / f"talker-{kind}.safetensors", tensors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", type=Kind, choices=list(Kind), required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--speaker", type=Path, help="weights of the trained speaker encoder; tiny-base alone needs it")
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--peak", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--positions", type=int, default=14_592)
    parser.add_argument("--sampled", type=int, default=3_072)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 96, 128, 192])
    parser.add_argument("--compile", action="store_true", help="fuse the layers with torch.compile")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    ids = text_ids(args.text)
    if args.kind is Kind.TINY:
        sequences = load_named(args.text, args.scratch, ids, args.device)
    else:
        if args.speaker is None:
            parser.error(
                "--kind tiny-base needs --speaker RUN/speaker.safetensors (python -m scripts.train_tiny.train_speaker)"
            )
        sequences = load_voices(args.text, args.scratch, args.speaker, ids, args.device)
    sizes = Sizes(args.positions, args.sampled, tuple(args.lengths))
    buckets = make_buckets(sequences, sequences.training(), sizes)
    torch.manual_seed(args.seed)
    held = {}
    for name, entries in sequences.held_out().items():
        longest = int(length(sequences.coded.speech, sequences.choice.take(entries)).max())
        bucket = Bucket(
            sequences, entries, longest, Sizes(min(len(entries), HELD_OUT_ROWS) * longest, args.sampled, ())
        )
        bucket.draw()
        held[name] = bucket
    config, talker = talker_modules(args.kind, args.text)
    initialise(talker)
    model = TalkerModel(config, talker, ids, DROPOUT, args.compile).to(args.device)
    budget = Budget(args.steps, args.seconds)
    trainer = Trainer(model, sequences.coded, args.out, f"talker-{args.kind}", budget)
    sizes_text = [(bucket.steps, bucket.rows, len(bucket.entries)) for bucket in buckets]
    trainer.training.log(
        buckets=sizes_text, frames=len(sequences.coded.codes), parameters=sum(p.numel() for p in talker.parameters())
    )
    run(trainer, buckets, held, args.peak, args.out, args.kind)


if __name__ == "__main__":
    main()
