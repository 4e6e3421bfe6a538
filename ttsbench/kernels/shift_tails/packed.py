"""Where every convolution's inputs and tails lie in two flat tensors, and how one launch divides them.

Convolutions lie one after another in both. Inputs hold the past and the frame, time first: [T + n, B, C]; their first T
positions are the tails of the call's streams, their last T will be. Shapes: B rows of a call, R rows at most, n
positions, C channels, S slots, T tail rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

BLOCK = 4096
"""Elements of a program."""


@dataclass(frozen=True)
class TailSite:
    """One convolution: `length` inputs [n, C] a frame, of which the last `tail` [T, C] are kept."""

    channels: int
    length: int
    tail: int


class TailPlan:
    """Layout of the tails [S, T, C] of all `sites` in one tensor and of their inputs [T + n, B, C] in another."""

    def __init__(
        self, sites: Sequence[TailSite], num_slots: int, max_rows: int, device: torch.device | str = "cpu"
    ) -> None:
        self.sites = tuple(sites)
        self.num_slots = num_slots
        self.max_rows = max_rows
        *self._tails, self.tail_size = _starts(num_slots * site.tail * site.channels for site in sites)
        sizes = (max_rows * (site.tail + site.length) * site.channels for site in sites)
        *self._inputs, self.input_size = _starts(-(-size // 64) * 64 for size in sizes)
        self.parts = torch.tensor(self._parts(), dtype=torch.int64, device=device)
        """[programs a row, 6] int64: input start, tail start, C, n, T, first element of the tail."""
        self.align = math.gcd(16, *(int(v) for row in self.parts.tolist() for v in row[:3]))
        """All starts and widths are multiples of it, which lets the kernel move whole vectors."""

    def inputs(self, flat: Tensor, site: int, rows: int) -> Tensor:
        """Past and frame [T + n, rows, C] of a convolution within `flat` [input_size]."""
        at = self.sites[site]
        size = rows * (at.tail + at.length) * at.channels
        return flat[self._inputs[site] :][:size].view(-1, rows, at.channels)

    def tails(self, flat: Tensor, site: int) -> Tensor:
        """Tails [S, T, C] of a convolution within `flat` [tail_size]."""
        at = self.sites[site]
        size = self.num_slots * at.tail * at.channels
        return flat[self._tails[site] :][:size].view(self.num_slots, at.tail, at.channels)

    def _parts(self) -> list[tuple[int, ...]]:
        parts: list[tuple[int, ...]] = []
        for site, x, tail in zip(self.sites, self._inputs, self._tails, strict=True):
            for first in range(0, site.tail * site.channels, BLOCK):
                parts.append((x, tail, site.channels, site.length, site.tail, first))
        return parts


def _starts(sizes: Iterable[int]) -> list[int]:
    """Where each part starts, and where the last one ends."""
    return list(accumulate(sizes, initial=0))
