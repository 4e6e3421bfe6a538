"""Train the codec's decoder as a vocoder: codes in, the teacher's sound out.

    python -m scripts.train_tiny.train_decoder --scratch SCRATCH --kinds named many --codes RUN/codes.safetensors \\
        --run RUN --seconds 320

The codebooks stay what was fitted. The loss is a distance of log-mel spectra at five scales; from `--judged-from` of
the budget on nine discriminators join in, whose loss gives the sound its edges. One crop in five keeps only its first
levels, because a talker's late levels are the ones that are wrong.

Writes `decoder.safetensors`, the state dict of `CodecDecoder`, into RUN at the end; the log is `decoder.jsonl`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from scripts.train_tiny.codes import Fit
from scripts.train_tiny.config import HOP, NUM_CODEBOOKS, ROW_WIDTH
from scripts.train_tiny.corpus import save_tensors
from scripts.train_tiny.discriminators import Discriminators, discriminator_loss, generator_losses
from scripts.train_tiny.fast_decoder import build_decoder, row_sums, train_on_row_sums
from scripts.train_tiny.features import log_mel, mel_filters
from scripts.train_tiny.loop import Budget, Stateful, Training, adamw, cosine, graphed
from scripts.train_tiny.precision import lower_precision
from scripts.train_tiny.speech import Speech, load_speech
from ttsbench.models.qwen3_tts.codec_past import NoPast

SCALES = ((2048, 160), (1024, 80), (512, 40), (256, 20), (128, 10))
"""Window and mel bins of each spectrum that is compared."""
MEL_WEIGHT, ADVERSARIAL_WEIGHT, MATCHING_WEIGHT = 10.0, 1.0, 2.0
PEAK_RATE, DISCRIMINATOR_RATE = 6e-4, 4e-4
BETAS = 0.8, 0.99
WEIGHT_DECAY = 1e-3
CLIP, DISCRIMINATOR_CLIP = 5.0, 10.0
FEWER_LEVELS = 0.2
"""Part of the crops that keep only their first `LEAST_LEVELS` to Q - 1 levels."""
LEAST_LEVELS = 4
HELD_BATCH = 16


@dataclass(frozen=True)
class Size:
    """Crops of a step; the discriminators hear the last `judged_frames` of the first `judged`."""

    crops: int
    frames: int
    judged: int
    judged_frames: int


FULL, TOY = Size(32, 32, 16, 16), Size(2, 8, 1, 4)


def spectra(wave: Tensor) -> list[Tensor]:
    """Log-mel spectra [B, n, bins] of waves [B, samples] float32 at all scales."""
    found = []
    for n_fft, bins in SCALES:
        window = torch.hann_window(n_fft, device=wave.device)
        spectrum = torch.stft(wave, n_fft, n_fft // 4, window=window, return_complex=True)
        power = spectrum.real.square() + spectrum.imag.square()
        magnitude = (power + 1e-9).sqrt().transpose(1, 2)  # the root has no slope at 0
        found.append(log_mel(magnitude, mel_filters(n_fft, bins, wave.device)))
    return found


def mel_distances(wave: Tensor, target: Tensor) -> Tensor:
    """Mean distance at each scale, [scales]."""
    with torch.no_grad():
        wanted = spectra(target)
    return torch.stack([(a - b).abs().mean() for a, b in zip(spectra(wave), wanted, strict=True)])


class Trainer:
    """The decoder, its discriminators and one training step, whose tensors stay where they are."""

    def __init__(self, fit: Fit, size: Size, device: torch.device, peak: float = PEAK_RATE) -> None:
        self.size, self.peak = size, peak
        self.books = fit.books.to(device)
        self.decoder = build_decoder(fit.books).to(device)
        train_on_row_sums(self.decoder)
        self.discriminators = Discriminators().to(device)
        self.optimizer, self.rate = adamw({"decoder": self.decoder}, BETAS, WEIGHT_DECAY)
        self.judge, self.judge_rate = adamw({"discriminators": self.discriminators}, BETAS, WEIGHT_DECAY)
        # Built here, as its mask is made with a copy to the device, which a captured step must not contain.
        self.past = NoPast(size.frames, self.decoder.config.window, device, torch.float32)
        self.target = torch.zeros(size.crops, size.frames * HOP, device=device)
        self.sums = torch.zeros(size.crops, size.frames, 2 * ROW_WIDTH, device=device)
        self.figures = {name: torch.zeros((), device=device) for name in ("mel", "norm")}
        self.judged = {name: torch.zeros((), device=device) for name in ("adversarial", "matching", "judge")}

    def draw(self, speech: Speech) -> None:
        """Put the next crops in place."""
        wave, codes = speech.crops(self.size.crops, self.size.frames)
        device, shape = wave.device, (len(wave),)
        fewer = torch.randint(LEAST_LEVELS, NUM_CODEBOOKS, shape, device=device)
        cut = torch.rand(shape, device=device) < FEWER_LEVELS
        self.target.copy_(wave)
        self.sums.copy_(row_sums(self.books, codes, torch.where(cut, fewer, NUM_CODEBOOKS)))

    def set_rate(self, progress: float) -> None:
        """The discriminators learn as fast as the decoder, but never faster than DISCRIMINATOR_RATE."""
        rate = cosine(progress, self.peak)
        self.rate.fill_(rate)
        self.judge_rate.fill_(min(DISCRIMINATOR_RATE, rate))

    def speak(self, sums: Tensor) -> Tensor:
        """Waves [B, F * HOP] float32 of `sums` [B, F, 2 E]."""
        with lower_precision(sums.device):
            return self.decoder(sums, self.past)

    def step(self) -> None:
        """One step on the spectral loss alone."""
        mel = mel_distances(self.speak(self.sums), self.target).mean()
        self._update(MEL_WEIGHT * mel, mel)

    def judged_step(self) -> None:
        """One step of the discriminators, then one of the decoder on all losses."""
        wave = self.speak(self.sums)
        since = (self.size.frames - self.size.judged_frames) * HOP
        fake, real = wave[: self.size.judged, since:], self.target[: self.size.judged, since:]
        with lower_precision(wave.device):
            judge = discriminator_loss(self.discriminators, real, fake)
        self.judge.zero_grad(set_to_none=True)
        torch.autograd.backward(judge)
        nn.utils.clip_grad_norm_(self.discriminators.parameters(), DISCRIMINATOR_CLIP)
        self.judge.step()
        self.discriminators.requires_grad_(False)  # the decoder's loss passes through, at no cost for their weights
        with lower_precision(wave.device):
            adversarial, matching = generator_losses(self.discriminators, real, fake)
        mel = mel_distances(wave, self.target).mean()
        self._update(MEL_WEIGHT * mel + ADVERSARIAL_WEIGHT * adversarial + MATCHING_WEIGHT * matching, mel)
        self.discriminators.requires_grad_(True)
        for figure, value in zip(self.judged.values(), (adversarial, matching, judge), strict=True):
            figure.copy_(value.detach())

    def _update(self, loss: Tensor, mel: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        norm = nn.utils.clip_grad_norm_(self.decoder.parameters(), CLIP)
        self.optimizer.step()
        self.figures["mel"].copy_(mel.detach())
        self.figures["norm"].copy_(norm)

    @torch.no_grad()
    def held_out(self, speech: Speech) -> list[float]:
        """Distance at each scale on held-out speech with all levels; empty without any."""
        wave, codes = speech.in_order(self.size.frames)
        if not len(wave):
            return []
        keep = torch.full((len(codes),), NUM_CODEBOOKS, device=codes.device)
        pieces = (torch.split(x, HELD_BATCH) for x in (row_sums(self.books, codes, keep), wave))
        totals = [mel_distances(self.speak(sums), target) * len(target) for sums, target in zip(*pieces, strict=True)]
        return [round(float(value), 4) for value in torch.stack(totals).sum(0) / len(wave)]


def train(trainer: Trainer, run: Path, budget: Budget, judged_from: float, speech: Speech, held: Speech) -> None:
    """With the discriminators from `judged_from` of the budget on. Continues where an earlier run stopped; writes the
    decoder at the end.
    """
    state: dict[str, Stateful] = {
        "decoder": trainer.decoder,
        "discriminators": trainer.discriminators,
        "optimizer": trainer.optimizer,
        "judge": trainer.judge,
    }
    training = Training("decoder", run, budget, state)
    trainer.draw(speech)
    step, figures, judged = None, trainer.figures, False
    for progress in training:
        if step is None or (progress >= judged_from and not judged):
            judged = progress >= judged_from
            step = None  # gives the memory of the first graph back before the second is captured
            step = graphed(trainer.judged_step if judged else trainer.step)
            figures = {**trainer.figures, **trainer.judged} if judged else trainer.figures
        trainer.set_rate(progress)
        trainer.draw(speech)
        step()
        if training.due():
            values = {name: float(value) for name, value in figures.items()}
            training.log(**values, held_out_mel=trainer.held_out(held))
    training.log(held_out_mel=trainer.held_out(held))
    save_tensors(run / "decoder.safetensors", trainer.decoder.state_dict())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="folder of the shards")
    parser.add_argument("--kinds", nargs="+", default=["named", "many"])
    parser.add_argument("--hours", type=float, default=50, help="speech to hold in memory; 50 h take 9 GB")
    parser.add_argument("--codes", type=Path, required=True, help="the fit")
    parser.add_argument("--run", type=Path, required=True, help="folder of results")
    parser.add_argument("--seconds", type=float, default=320)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--judged-from", type=float, default=0.5, help="part of the budget before the discriminators")
    parser.add_argument("--start", type=Path, help="weights of a trained decoder to go on from, of the same fit")
    parser.add_argument("--peak", type=float, default=PEAK_RATE, help="highest learning rate")
    parser.add_argument("--toy", action="store_true", help="two short crops a step, for a rehearsal on a CPU")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = True
    fit = Fit.load(arguments.codes, device)
    speech, held = load_speech(arguments.scratch, arguments.kinds, arguments.hours, fit, device)
    trainer = Trainer(fit, TOY if arguments.toy else FULL, device, arguments.peak)
    if arguments.start is not None:
        trainer.decoder.load_state_dict(load_file(arguments.start))
    budget = Budget(arguments.steps, arguments.seconds)
    train(trainer, arguments.run, budget, arguments.judged_from, speech, held)


if __name__ == "__main__":
    main()
