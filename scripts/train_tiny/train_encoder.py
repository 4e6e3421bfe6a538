"""Train the codec's encoder to see in a wave what the codes were made of.

    python -m scripts.train_tiny.train_encoder --scratch SCRATCH --kinds many reference --codes RUN/codes.safetensors \\
        --run RUN --seconds 80

No quantiser is in the loop: the projections in front of the two groups of codebooks learn the semantic and the acoustic
view of every frame, which the fitted codebooks then code as they always do. Two small terms ask that the nearest row of
each group's first codebook be the right one. Crops come at a random level, and what they should give is computed from
the crop as it is heard: with silence before it, which is how a reference begins.

Writes `encoder.safetensors`, the state dict of `CodecEncoder`, into RUN at the end; the log is `encoder.jsonl`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from scripts.train_tiny.codes import Fit, encode, nearest
from scripts.train_tiny.config import HOP, codec_modules, fill_codebooks
from scripts.train_tiny.corpus import LEVEL, save_tensors
from scripts.train_tiny.encoder import batch_features, no_past
from scripts.train_tiny.features import frame_features
from scripts.train_tiny.fit_codes import left_power
from scripts.train_tiny.loop import Budget, Training, adamw, cosine, graphed
from scripts.train_tiny.precision import lower_precision
from scripts.train_tiny.speech import Speech, load_speech
from ttsbench.models.qwen3_tts.codec_encoder import CodecEncoder, ResidualQuantizer
from ttsbench.models.qwen3_tts.codec_transformer import LayerScale

PEAK_RATE = 2e-3
BETAS = 0.9, 0.99
WEIGHT_DECAY = 1e-2
CLIP = 1.0
CHOICE_WEIGHT = 0.1
"""Of the cross-entropy of the first codes, beside relative distances in the two views."""
GAIN_DB = 6.0
"""References are louder or quieter than the teacher by up to this much."""
BRANCH_START = 0.1


def build_encoder(books: Tensor) -> CodecEncoder:
    """A fresh encoder with the fitted codebooks [Q, K, E].

    Weights keep the variance of what they are given; with the library's start the output hardly varies in time, and
    training does not get away from there.
    """
    encoder = codec_modules()[2]
    for module in encoder.modules():
        if isinstance(module, nn.Conv1d | nn.Linear):
            nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, LayerScale):
            nn.init.constant_(module.scale, BRANCH_START)
    with torch.no_grad():  # speech is quieter than what ELU is made for: without this all its bends look straight
        next(encoder.encoder.parameters()).div_(LEVEL)
    for group in groups(encoder):
        group.output_proj.requires_grad_(False)  # part of the file, of no use to an encoder
    fill_codebooks(encoder.quantizer, books)
    return encoder


def groups(encoder: CodecEncoder) -> tuple[ResidualQuantizer, ResidualQuantizer]:
    """The semantic and the acoustic group of codebooks."""
    quantizer = encoder.quantizer
    return quantizer.semantic_residual_vector_quantizer, quantizer.acoustic_residual_vector_quantizer


class Trainer:
    """The encoder and one training step, whose tensors stay where they are."""

    def __init__(self, fit: Fit, speech: Speech, crops: int, frames: int, device: torch.device) -> None:
        self.fit = fit
        self.encoder = build_encoder(fit.books).to(device)
        self.optimizer, self.rate = adamw({"encoder": self.encoder}, BETAS, WEIGHT_DECAY)
        self.wave = torch.zeros(crops, frames * HOP, device=device)
        self.past = no_past(frames, device)  # its mask is made with a copy to the device: not in a captured step
        self.figures = {name: torch.zeros((), device=device) for name in ("semantic", "acoustic", "choice", "norm")}
        self.draw(speech)
        views = self.views(self.wave)
        self.power = [float(view.square().sum(1).mean()) for view in views]
        books = fit.books[:2]
        self.spread = [_left(view, book, nearest(view, book)) for view, book in zip(views, books, strict=True)]

    def draw(self, speech: Speech) -> None:
        """Put the next crops in place."""
        crops, samples = self.wave.shape
        wave, _ = speech.crops(crops, samples // HOP)
        decibels = (2 * torch.rand(crops, 1, device=wave.device) - 1) * GAIN_DB
        self.wave.copy_(wave * 10 ** (decibels / 20))

    def views(self, wave: Tensor) -> tuple[Tensor, Tensor]:
        """Semantic and acoustic view [B * F, E] of crops `wave` [B, F * HOP], with silence before each."""
        features = crop_features(wave)
        return self.fit.semantic(features), self.fit.acoustic(features)

    def seen(self, wave: Tensor) -> list[Tensor]:
        """Both views [B * F, E] as the encoder sees them."""
        with lower_precision(wave.device):
            heard = batch_features(self.encoder, wave, self.past)
        rows = heard.float().flatten(0, 1)
        return [F.linear(rows, group.input_proj.weight.squeeze(2)) for group in groups(self.encoder)]

    def step(self) -> None:
        with torch.no_grad():
            views = self.views(self.wave)
        distances, choices = [], []
        for number, (seen, view) in enumerate(zip(self.seen(self.wave), views, strict=True)):
            distances.append((seen - view).square().sum(1).mean() / self.power[number])
            book = self.fit.books[number]
            likeness = (2 * seen @ book.T - book.square().sum(1)) / self.spread[number]  # and a term of `seen` alone
            choices.append(F.cross_entropy(likeness, nearest(view, book)))
        choice = torch.stack(choices).mean()
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(torch.stack(distances).sum() + CHOICE_WEIGHT * choice)
        norm = nn.utils.clip_grad_norm_(self.encoder.parameters(), CLIP)
        self.optimizer.step()
        for figure, value in zip(self.figures.values(), (*distances, choice, norm), strict=True):
            figure.copy_(value.detach())

    @torch.no_grad()
    def held_out(self, speech: Speech) -> dict[str, Any]:
        """How the encoder's codes of held-out crops compare with the constructed ones; empty without any."""
        crops, samples = self.wave.shape
        waves = speech.in_order(samples // HOP)[0]
        if not len(waves):
            return {}
        self.encoder.finalize()  # the codebooks as tables; loading a state has dropped them
        batches = torch.split(waves, crops)
        with lower_precision(waves.device):
            pieces = [batch_features(self.encoder, wave, self.past) for wave in batches]
        heard = self.encoder.quantizer(torch.cat(pieces).float().flatten(0, 1))
        features = torch.cat([crop_features(wave) for wave in batches])
        right = encode(self.fit, features)
        return {
            "codes_agree": [round(float(part), 3) for part in (heard == right).float().mean(0)],
            "power_left_by_encoder": left_power(self.fit, features, heard),
            "power_left_by_construction": left_power(self.fit, features, right),
        }


def crop_features(wave: Tensor) -> Tensor:
    """Features [B * F, FEATURES] of crops `wave` [B, F * HOP], each with silence before it."""
    audio = wave.reshape(-1, HOP)
    starts = torch.arange(len(audio), device=wave.device) % (wave.shape[1] // HOP) == 0
    return frame_features(audio, starts)


def _left(points: Tensor, book: Tensor, codes: Tensor) -> float:
    return float((points - book[codes]).square().sum(1).mean())


def train(trainer: Trainer, run: Path, budget: Budget, peak: float, speech: Speech, held: Speech) -> None:
    """Continues where an earlier run stopped. Writes the encoder at the end."""
    training = Training("encoder", run, budget, {"encoder": trainer.encoder, "optimizer": trainer.optimizer})
    trainer.draw(speech)
    step = graphed(trainer.step)
    for progress in training:
        trainer.rate.fill_(cosine(progress, peak))
        trainer.draw(speech)
        step()
        if training.due():
            training.log(**{name: float(value) for name, value in trainer.figures.items()}, **trainer.held_out(held))
    training.log(**trainer.held_out(held))
    save_tensors(run / "encoder.safetensors", trainer.encoder.state_dict())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="folder of the shards")
    parser.add_argument("--kinds", nargs="+", default=["many", "reference"])
    parser.add_argument("--hours", type=float, default=30, help="speech to hold in memory")
    parser.add_argument("--codes", type=Path, required=True, help="the fit")
    parser.add_argument("--run", type=Path, required=True, help="folder of results")
    parser.add_argument("--seconds", type=float, default=80)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--start", type=Path, help="weights of a trained encoder to go on from, of the same fit")
    parser.add_argument("--peak", type=float, default=PEAK_RATE, help="highest learning rate")
    parser.add_argument("--crops", type=int, default=16, help="of a step")
    parser.add_argument(
        "--frames", type=int, default=128, help="of a crop: attention has no window, so like a reference"
    )
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = True
    fit = Fit.load(arguments.codes, device)
    speech, held = load_speech(arguments.scratch, arguments.kinds, arguments.hours, fit, device)
    trainer = Trainer(fit, speech, arguments.crops, arguments.frames, device)
    if arguments.start is not None:
        trainer.encoder.load_state_dict(load_file(arguments.start))
    train(trainer, arguments.run, Budget(arguments.steps, arguments.seconds), arguments.peak, speech, held)


if __name__ == "__main__":
    main()
