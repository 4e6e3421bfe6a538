"""Where every convolution's inputs and tails lie in two flat tensors, and how one launch divides them.

Convolutions lie one after another in both. Shapes: B rows of a call, R rows at most, n positions, C channels, S slots,
T tail rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

BLOCK = 4096
"""Elements of a program: all T rows of some channels, as it must read every row before it writes one."""


@dataclass(frozen=True)
class TailSite:
    """One convolution: `length` inputs [n, C] a frame, of which the last `tail` [T, C] are kept."""

    channels: int
    length: int
    tail: int


class TailPlan:
    """Layout of the tails [S, T, C] of all `sites` in one tensor and of their inputs [R, n, C] in another."""

    def __init__(
        self, sites: Sequence[TailSite], num_slots: int, max_rows: int, device: torch.device | str = "cpu"
    ) -> None:
        self.sites = tuple(sites)
        self.num_slots = num_slots
        self.max_rows = max_rows
        *self._tails, self.tail_size = _starts(num_slots * site.tail * site.channels for site in sites)
        *self._inputs, self.input_size = _starts(max_rows * site.length * site.channels for site in sites)
        self.parts = torch.tensor(self._parts(), dtype=torch.int64, device=device)
        """[programs a row, 7] int64: input start, tail start, C, n, T, first channel, channels."""
        self.align = math.gcd(16, *(int(v) for row in self.parts.tolist() for v in (*row[:3], *row[5:])))
        """All starts and widths are multiples of it, which lets the kernel move whole vectors."""

    def inputs(self, flat: Tensor, site: int, rows: int) -> Tensor:
        """Inputs [rows, n, C] of a convolution within `flat` [input_size]."""
        at = self.sites[site]
        size = rows * at.length * at.channels
        return flat[self._inputs[site] :][:size].view(rows, at.length, at.channels)

    def tails(self, flat: Tensor, site: int) -> Tensor:
        """Tails [S, T, C] of a convolution within `flat` [tail_size]."""
        at = self.sites[site]
        size = self.num_slots * at.tail * at.channels
        return flat[self._tails[site] :][:size].view(self.num_slots, at.tail, at.channels)

    def _parts(self) -> list[tuple[int, ...]]:
        parts: list[tuple[int, ...]] = []
        for site, x, tail in zip(self.sites, self._inputs, self._tails, strict=True):
            width = max(1, min(site.channels, BLOCK // site.tail // 16 * 16))
            for first in range(0, site.channels, width):
                channels = min(width, site.channels - first)
                parts.append((x, tail, site.channels, site.length, site.tail, first, channels))
        return parts


def _starts(sizes: Iterable[int]) -> list[int]:
    """Where each part starts, and where the last one ends."""
    return list(accumulate(sizes, initial=0))
