"""Discriminators of the decoder's adversarial half, used in training only.

Five look at the wave folded by a prime period (after HiFi-GAN), four at a complex spectrum (after EnCodec). Each
answers with a map of scores and with its inner activations, which the feature-matching loss compares.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PERIODS = (2, 3, 5, 7, 11)
WINDOWS = (2048, 1024, 512, 256)
SLOPE = 0.1
Verdict = tuple[Tensor, list[Tensor]]
"""Scores, and the activations of each layer before them."""


class _Stack(nn.Module):
    """Leaky convolutions and a last one to a single channel of scores."""

    def __init__(self, layers: list[nn.Conv2d], last: nn.Conv2d) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.last = last

    def forward(self, x: Tensor) -> Verdict:
        inner = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), SLOPE)
            inner.append(x)
        return self.last(x), inner


class PeriodDiscriminator(nn.Module):
    """Waves [B, samples] as pictures [B, 1, samples / period, period]."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self.period = period
        widths = (1, 16, 48, 96, 160)
        layers = [nn.Conv2d(a, b, (5, 1), (3, 1), (2, 0)) for a, b in pairwise(widths)]
        layers.append(nn.Conv2d(widths[-1], widths[-1], (5, 1), 1, (2, 0)))
        self.stack = _Stack(layers, nn.Conv2d(widths[-1], 1, (3, 1), 1, (1, 0)))

    def forward(self, wave: Tensor) -> Verdict:
        whole = wave.shape[1] // self.period * self.period
        return self.stack(wave[:, :whole].reshape(len(wave), 1, -1, self.period))


class SpectrumDiscriminator(nn.Module):
    """Waves [B, samples] as complex spectra [B, 2, time, frequency]."""

    def __init__(self, n_fft: int, width: int = 24) -> None:
        super().__init__()
        self.n_fft = n_fft
        layers = [
            nn.Conv2d(2, width, (3, 9), (1, 2), (1, 4)),
            nn.Conv2d(width, width, (3, 9), (1, 2), (1, 4)),
            nn.Conv2d(width, 2 * width, (3, 9), (1, 2), (1, 4)),
            nn.Conv2d(2 * width, 2 * width, (3, 3), 1, (1, 1)),
        ]
        self.stack = _Stack(layers, nn.Conv2d(2 * width, 1, 3, 1, 1))

    def forward(self, wave: Tensor) -> Verdict:
        with torch.autocast(wave.device.type, enabled=False):
            window = torch.hann_window(self.n_fft, device=wave.device)
            spectrum = torch.stft(
                wave.float(), self.n_fft, self.n_fft // 4, window=window, normalized=True, return_complex=True
            )
            picture = torch.view_as_real(spectrum).permute(0, 3, 2, 1)
        return self.stack(picture)


class Discriminators(nn.Module):
    """All nine; one verdict each."""

    def __init__(self) -> None:
        super().__init__()
        spectra = [SpectrumDiscriminator(n_fft) for n_fft in WINDOWS]
        self.members = nn.ModuleList([*(PeriodDiscriminator(period) for period in PERIODS), *spectra])

    def forward(self, wave: Tensor) -> list[Verdict]:
        return [member(wave) for member in self.members]


def discriminator_loss(discriminators: Discriminators, real: Tensor, fake: Tensor) -> Tensor:
    """Least squares: real waves score 1, `fake` (detached) ones 0; mean over the discriminators."""
    losses = []
    for scores, _ in discriminators(torch.cat((real, fake.detach()))):
        on_real, on_fake = scores.float().chunk(2)
        losses.append((on_real - 1).square().mean() + on_fake.square().mean())
    return torch.stack(losses).mean()


def generator_losses(discriminators: Discriminators, real: Tensor, fake: Tensor) -> tuple[Tensor, Tensor]:
    """Adversarial and feature-matching loss of `fake`, means over the discriminators.

    Feature matching is the mean distance of activations relative to their size on real waves.
    """
    with torch.no_grad():
        on_real = discriminators(real)
    adversarial, matching = [], []
    for (scores, inner), (_, wanted) in zip(discriminators(fake), on_real, strict=True):
        adversarial.append((scores.float() - 1).square().mean())
        layers = [
            (a.float() - b.float()).abs().mean() / (b.float().abs().mean() + 1e-4)
            for a, b in zip(inner, wanted, strict=True)
        ]
        matching.append(torch.stack(layers).mean())
    return torch.stack(adversarial).mean(), torch.stack(matching).mean()
