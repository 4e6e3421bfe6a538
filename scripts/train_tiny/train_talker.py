"""Train the talker and the code predictor of one checkpoint on coded speech.

    python -m scripts.train_tiny.train_talker --kind tiny --text TEXT --scratch SCRATCH --out RUN --seconds 900
    python -m scripts.train_tiny.train_talker --kind tiny-base --speaker RUN/speaker.safetensors ...

`tiny` reads `named` shards, in both text layouts. `tiny-base` reads `many` and `reference` shards with the vector of
another utterance of the voice, `IN_CONTEXT` of them with such an utterance in the context: see `references`. Sequences
of about equal length form buckets; every bucket has the same number of positions a step and its own captured graph.
Writes `RUN/talker-<kind>.safetensors`, and beside it the state and the log of `loop.Training`.
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
from scripts.train_tiny.references import load_cloning
from scripts.train_tiny.talker_data import Coded, Drawn, Sequences, load_named, text_ids
from scripts.train_tiny.talker_model import Corruption, Losses, TalkerModel, initialise, losses

PHONEME_WEIGHT = 0.3
FOCUS_WEIGHT = 0.3
DROPOUT = 0.1
BETAS = (0.9, 0.98)
WEIGHT_DECAY = 0.1
CLIP = 1.0
HELD_OUT_ROWS = 256
DRAW_EVERY = 1000
"""Steps between new draws of the sequences: about as many as a draw has are used up in them."""


@dataclass(frozen=True)
class Sizes:
    """Positions a step, frames a step whose later codes are learned, and the bucket lengths [S]."""

    positions: int
    sampled: int
    lengths: tuple[int, ...]


class Bucket:
    """Sequences of at most `steps` positions: static input buffers, and what fills them."""

    def __init__(self, sequences: Sequences, drawn: Drawn, steps: int, sizes: Sizes) -> None:
        self.rows = max(1, sizes.positions // steps)
        self.drawn = drawn
        self.steps = steps
        self._sequences = sequences
        device = drawn.choice.target.device
        empty = torch.zeros(self.rows, steps, dtype=torch.long, device=device)
        self.batch = Rows(*(empty.clone() for _ in fields(Rows)))
        self.sampled = torch.zeros(sizes.sampled, dtype=torch.long, device=device)
        self.speakers = None if sequences.vectors is None else sequences.vectors[:1].repeat(self.rows, 1)

    def __len__(self) -> int:
        return len(self.drawn.choice.target)

    def draw(self) -> None:
        """Fill the buffers with random sequences."""
        chosen = self.drawn.take(torch.randint(len(self), (self.rows,), device=self.sampled.device))
        made = arrange(self._sequences.coded.speech, chosen.choice, self.steps, self._sequences.ids)
        for field in fields(Rows):
            getattr(self.batch, field.name).copy_(getattr(made, field.name))
        frames = (made.goal.flatten() >= 0).float()
        self.sampled.copy_(torch.multinomial(frames, len(self.sampled), replacement=True))
        if self.speakers is not None and self._sequences.vectors is not None:
            self.speakers.copy_(self._sequences.vectors[chosen.voiced_by])


def by_length(sequences: Sequences, drawn: Drawn, lengths: tuple[int, ...]) -> dict[int, Drawn]:
    """The sequences that fit each of `lengths` and no shorter one; longer ones are left out."""
    found, shortest = length(sequences.coded.speech, drawn.choice), 0
    parts = {}
    for steps in lengths:
        inside = ((found > shortest) & (found <= steps)).nonzero()[:, 0]
        shortest = steps
        if len(inside):
            parts[steps] = drawn.take(inside)
    return parts


def refill(buckets: list[Bucket], sequences: Sequences, lengths: tuple[int, ...]) -> None:
    """Put newly drawn sequences into the buckets; one that none fits keeps those it has."""
    parts = by_length(sequences, sequences.training(), lengths)
    for bucket in buckets:
        bucket.drawn = parts.get(bucket.steps, bucket.drawn)


def held_buckets(sequences: Sequences, sampled: int) -> dict[str, Bucket]:
    """One bucket of fixed sequences that are never trained on for every kind of them."""
    buckets = {}
    for name, drawn in sequences.held_out().by_kind().items():
        longest = int(length(sequences.coded.speech, drawn.choice).max())
        rows = min(len(drawn.choice.target), HELD_OUT_ROWS)
        buckets[name] = Bucket(sequences, drawn, longest, Sizes(rows * longest, sampled, ()))
        buckets[name].draw()
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


def run(
    trainer: Trainer, sequences: Sequences, buckets: list[Bucket], held: dict[str, Bucket], peak: float, path: Path
) -> None:
    """The training loop; writes the talker to `path` every minute and at the end."""
    lengths = tuple(bucket.steps for bucket in buckets)
    steps: list[Callable[[], None]] = []
    for bucket in buckets:
        bucket.draw()
        steps.append(graphed(lambda bucket=bucket: trainer.step(bucket)))  # type: ignore[misc]
    weights = torch.tensor([len(bucket) / bucket.rows for bucket in buckets])
    training, generator = trainer.training, torch.Generator().manual_seed(trainer.training.step)
    order = torch.multinomial(weights, 1_000_000, replacement=True, generator=generator).tolist()
    written = time.monotonic()
    for progress in training:
        trainer.rate.fill_(cosine(progress, peak))
        if training.step % DRAW_EVERY == 0:
            refill(buckets, sequences, lengths)
        which = order[training.step % len(order)]
        buckets[which].draw()
        steps[which]()
        if training.due():
            figures = dict(zip((*FIGURES, "norm"), (float(x) for x in trainer.figures), strict=True))
            training.log(progress=progress, **figures, held=held_out(trainer, held))
        if time.monotonic() - written > 60:
            written = time.monotonic()
            write(trainer.model, path)
    training.log(progress=1.0, held=held_out(trainer, held))
    write(trainer.model, path)


def write(model: TalkerModel, path: Path) -> None:
    """The talker's weights in half precision, under their published names."""
    model.spread_idle_rows()
    tensors = {name: p.detach().half().cpu().contiguous() for name, p in model.talker.state_dict().items()}
    save_tensors(path, tensors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", type=Kind, choices=list(Kind), required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--speaker", type=Path, help="weights of the trained speaker encoder; tiny-base alone needs it")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--peak", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--dropout", type=float, default=DROPOUT)
    parser.add_argument("--positions", type=int, default=14_592)
    parser.add_argument("--sampled", type=int, default=3_072)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 96, 128, 192])
    parser.add_argument("--compile", action="store_true", help="fuse the layers with torch.compile")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    ids = text_ids(args.text)
    sequences: Sequences
    if args.kind is Kind.TINY:
        sequences = load_named(args.text, args.scratch, ids, args.device)
    else:
        if args.speaker is None:
            parser.error(
                "--kind tiny-base needs --speaker RUN/speaker.safetensors (python -m scripts.train_tiny.train_speaker)"
            )
        sequences = load_cloning(args.text, args.scratch, args.speaker, ids, args.device)
    sizes = Sizes(args.positions, args.sampled, tuple(args.lengths))
    torch.manual_seed(0)
    held = held_buckets(sequences, args.sampled)
    torch.manual_seed(args.seed)
    parts = by_length(sequences, sequences.training(), sizes.lengths)
    buckets = [Bucket(sequences, drawn, steps, sizes) for steps, drawn in parts.items()]
    config, talker = talker_modules(args.kind, args.text)
    initialise(talker)
    model = TalkerModel(config, talker, ids, args.dropout, args.compile).to(args.device)
    budget = Budget(args.steps, args.seconds)
    name = f"talker-{args.kind}"
    trainer = Trainer(model, sequences.coded, args.out, name, budget)
    sizes_text = [(bucket.steps, bucket.rows, len(bucket)) for bucket in buckets]
    trainer.training.log(
        buckets=sizes_text, frames=len(sequences.coded.codes), parameters=sum(p.numel() for p in talker.parameters())
    )
    run(trainer, sequences, buckets, held, args.peak, args.out / f"{name}.safetensors")


if __name__ == "__main__":
    main()
