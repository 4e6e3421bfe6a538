"""Codes by construction: sixteen codebooks fitted to log-mel features, with nothing learnt by gradient.

Two linear views of a frame's features are quantised apart, as the published codec does it:

    semantic  64 numbers, of which the first SEMANTIC_DIMS separate the teacher's phonemes (linear discriminant
              analysis, whitened within a phoneme); book 0 is k-means on them
    acoustic  the 64 first principal components; books 1..15 are k-means in turn, each on what the last one left

Sound comes back from the acoustic books alone. Book 0 says early what is spoken, for a talker to hold on to. Both views
are functions of the one feature vector, so an encoder with one output and two projections can produce the codes.

Shapes: N frames, Q codebooks, K codebook size, E width of both views.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from scripts.train_tiny.config import CODEBOOK_SIZE, NUM_CODEBOOKS, ROW_WIDTH
from scripts.train_tiny.corpus import save_tensors
from scripts.train_tiny.pace import SPACE, STRESS

SEMANTIC_DIMS = 24
SILENT = range(16)
"""Teacher symbols that sound like silence: the pad and the punctuation."""
SOUNDLESS = (SPACE, *STRESS, 158)
"""Space, both stress marks and the length mark: their time belongs to the phonemes around them."""
MIDDLE = slice(1, 3)
"""The label slots of a frame (of four) that say what it is: the middle ones."""
RIDGE = 1e-2
"""Part of the mean variance within a phoneme that is added to each direction, so that none of no variance wins."""
ITERATIONS = 25
BATCH = 1 << 17
"""Frames whose distances are taken at a time."""


@dataclass(frozen=True)
class Fit:
    """Everything that makes codes of features; float32 tensors on one device."""

    mean: Tensor
    """[FEATURES]"""
    semantic_basis: Tensor
    """[FEATURES, E]; columns from SEMANTIC_DIMS on are zero."""
    acoustic_basis: Tensor
    """[FEATURES, E], orthogonal columns of equal length: the principal directions over one scale."""
    books: Tensor
    """[Q, K, E], the semantic one first. The mean standard deviation of a coordinate in either view is 1."""

    def semantic(self, features: Tensor) -> Tensor:
        return (features - self.mean) @ self.semantic_basis

    def acoustic(self, features: Tensor) -> Tensor:
        return (features - self.mean) @ self.acoustic_basis

    def features(self, acoustic: Tensor) -> Tensor:
        """Features [N, FEATURES] whose acoustic view is `acoustic` [N, E]."""
        return (acoustic / self.acoustic_basis.square().sum(0)) @ self.acoustic_basis.T + self.mean

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu") -> Fit:
        return cls(**{name: tensor.to(device) for name, tensor in load_file(path).items()})

    def save(self, path: Path) -> None:
        """Whole or not at all."""
        save_tensors(path, {field.name: getattr(self, field.name).cpu().contiguous() for field in fields(self)})


def fit(features: Tensor, labels: Tensor, generator: torch.Generator) -> Fit:
    """Views and codebooks of `features` [N, FEATURES] and `labels` [N, 4]; all of one device, `generator` too."""
    mean = features.mean(0)
    centred = features - mean
    acoustic_basis = _unit_scale(centred, principal_directions(centred, ROW_WIDTH))
    semantic_basis = _unit_scale(centred, discriminants(centred, labels, SEMANTIC_DIMS))
    semantic_basis = F.pad(semantic_basis, (0, ROW_WIDTH - SEMANTIC_DIMS))
    semantic = centred @ semantic_basis
    books = [rarest_first(k_means(semantic, generator), semantic)]
    left = centred @ acoustic_basis
    for _ in range(NUM_CODEBOOKS - 1):
        books.append(k_means(left, generator))
        left = left - books[-1][nearest(left, books[-1])]
    return Fit(mean, semantic_basis, acoustic_basis, torch.stack(books))


def encode(fit: Fit, features: Tensor) -> Tensor:
    """Codes [N, Q] uint8 of `features` [N, FEATURES]."""
    columns = [nearest(fit.semantic(features), fit.books[0])]
    left = fit.acoustic(features)
    for book in fit.books[1:]:
        columns.append(nearest(left, book))
        left = left - book[columns[-1]]
    return torch.stack(columns, 1).to(torch.uint8)


def principal_directions(centred: Tensor, count: int) -> Tensor:
    """Orthonormal [FEATURES, count] of the largest variance."""
    covariance = (centred.T @ centred).double() / len(centred)
    return torch.linalg.eigh(covariance)[1].flip(1)[:, :count].float()


def discriminants(centred: Tensor, labels: Tensor, count: int) -> Tensor:
    """[FEATURES, count] whose coordinates separate phonemes best; whitened within a phoneme.

    Each middle slot of a frame counts as one sample of its phoneme. Directions beyond the number of phonemes are those
    of the least variance within one.
    """
    phonemes = labels[:, MIDDLE].long()
    phonemes = phonemes.masked_fill(phonemes < len(SILENT), 0)
    samples, classes = centred.repeat_interleave(phonemes.shape[1], 0), phonemes.flatten()
    sounding = ~torch.isin(classes, torch.tensor(SOUNDLESS, device=classes.device))
    samples, classes = samples[sounding], classes[sounding]
    count_of = torch.bincount(classes, minlength=256).clamp(min=1).float()
    means = torch.zeros(256, centred.shape[1], device=centred.device).index_add_(0, classes, samples)
    means = means / count_of[:, None]
    inside = samples - means[classes]
    within = (inside.T @ inside).double() / len(samples)
    within += RIDGE * within.diagonal().mean() * torch.eye(len(within), device=within.device)
    between = means[classes] - samples.mean(0)
    power, axes = torch.linalg.eigh(within)
    whiten = axes * power.rsqrt()
    separation = whiten.T @ ((between.T @ between).double() / len(samples)) @ whiten
    return (whiten @ torch.linalg.eigh(separation)[1].flip(1)[:, :count]).float()


def _unit_scale(centred: Tensor, directions: Tensor) -> Tensor:
    """`directions` over one number, so that the mean standard deviation of a coordinate is 1."""
    return directions / (centred @ directions).std(0).mean()


def k_means(points: Tensor, generator: torch.Generator, size: int = CODEBOOK_SIZE) -> Tensor:
    """Means [size, E] of clusters of `points` [N, E].

    A mean that loses all its points moves to a random one. Many do at first: a quarter of the points are one silence.
    """
    means = _some(points, size, generator)
    for _ in range(ITERATIONS):
        code = nearest(points, means)
        count = torch.bincount(code, minlength=size).float()
        sums = torch.zeros_like(means).index_add_(0, code, points)
        spare = _some(points, size, generator)
        means = torch.where(count[:, None] > 0, sums / count.clamp(min=1)[:, None], spare)
    return means


def _some(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return points[torch.randint(len(points), (count,), generator=generator, device=points.device)]


def rarest_first(book: Tensor, points: Tensor) -> Tensor:
    """Rows of `book` in the order of how few `points` they are nearest to.

    One server never draws code 0 of the first codebook; so it shall be one that hardly occurs.
    """
    return book[torch.bincount(nearest(points, book), minlength=len(book)).argsort(stable=True)]


def nearest(points: Tensor, book: Tensor) -> Tensor:
    """Index [N] of the row of `book` next to each point."""
    half_norms = book.square().sum(1) / 2
    return torch.cat([(half_norms - piece @ book.T).argmin(1) for piece in torch.split(points, BATCH)])
