"""Random numbers as a pure function of (seed, frame, codebook): Philox-4x32-10 (Salmon et al., SC 2011).

There is no generator state to carry, save or lose: admission order, neighbours, cancellation and resumption cannot
shift a draw, because a draw only knows whose it is and where it stands.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF
ROUNDS = 10

LARGEST_UNIFORM = 1 - 2.0**-24
"""The largest float32 below 1. The last of the centred 24-bit numbers would round to 1 without this bound."""


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four 32-bit words (in int64) from four counter words and two key words, all int64 tensors of one shape in [0,
    2**32).
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _multiply(_MULTIPLIERS[0], c0)
        high1, low1 = _multiply(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 = (k0 + _WEYL[0]) & _LOW
        k1 = (k1 + _WEYL[1]) & _LOW
    return c0, c1, c2, c3


def uniform_of(word: Tensor) -> Tensor:
    """Uniforms in the open interval (0, 1), float32, from 32-bit words: the 24 high bits, centred."""
    return (((word >> 8).float() + 0.5) * 2.0**-24).clamp(max=LARGEST_UNIFORM)


def frame_uniforms(seeds: Tensor, frames: Tensor, num_codebooks: int) -> Tensor:
    """Uniforms [B, num_codebooks] in the open interval (0, 1), float32, for `seeds` [B] (int64 >= 0) and `frames`
    [B].
    """
    return uniforms(seeds, frames, torch.arange(num_codebooks, device=seeds.device))


def uniforms(seeds: Tensor, frames: Tensor, books: Tensor) -> Tensor:
    """Uniforms [B, n] like `frame_uniforms`, of the codebooks `books` [n]."""
    shape = (seeds.shape[0], books.shape[0])
    zero = torch.zeros(shape, dtype=torch.int64, device=seeds.device)
    seeds = seeds[:, None].expand(shape)
    counter = (frames[:, None].expand(shape), books.expand(shape), zero, zero)
    return uniform_of(philox(counter, (seeds & _LOW, seeds >> 32))[0])


def _multiply(factor: int, word: Tensor) -> tuple[Tensor, Tensor]:
    """High and low 32 bits of a 32 x 32 bit product, without overflowing signed 64-bit lanes."""
    low = (word & 0xFFFF) * factor
    high = (word >> 16) * factor + (low >> 16)
    return high >> 16, ((high & 0xFFFF) << 16) | (low & 0xFFFF)
