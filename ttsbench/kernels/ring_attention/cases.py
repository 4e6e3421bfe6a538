"""Named shapes of the ring's attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.ring_attention import ring_attention
from ttsbench.kernels.ring_attention.reference import ring_attention as plain
from ttsbench.kernels.work import LARGE, Sizes, Work, over


@dataclass(frozen=True)
class Case:
    """`positions` of the streams' new rows; rows that no query may see hold large values."""

    name: str
    positions: tuple[int, ...]
    heads: int
    kv_heads: int
    head_dim: int
    ring: int
    window: int


SMALL = (
    Case("first positions", (0, 1, 2), 2, 2, 8, ring=16, window=9),
    Case("around the window and the ring's end", (8, 9, 15, 16, 40), 2, 2, 8, ring=16, window=9),
    Case("a ring no longer than the window", (3, 71, 72, 1000), 1, 1, 12, ring=72, window=72),
    Case("grouped heads", (0, 100), 6, 2, 16, ring=128, window=72),
)


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """Streams here and there in their utterances."""
    positions = tuple(37 * i % 400 for i in range(1, rows + 1))
    return [Case(f"released, {rows} rows", positions, 16, 16, 64, ring=128, window=72)]


RELEASED = over((1, 32, 128), released)


@dataclass(frozen=True)
class Inputs:
    """Arguments of the operation, in its order."""

    qkv: Tensor
    keys: Tensor
    values: Tensor
    slots: Tensor
    position: Tensor
    frequencies: Tensor
    window: int

    def run(self, operation: Callable[..., Tensor]) -> Tensor:
        return operation(*vars(self).values())


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype) -> Inputs:
    noise = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=noise).to(dtype)

    rows, half = len(case.positions), case.head_dim // 2
    slots = torch.randperm(rows + 2, generator=noise)[:rows]
    position = torch.zeros(rows + 2, dtype=torch.int64)
    position[slots] = torch.tensor(case.positions)
    shape = (rows + 2, case.ring, case.kv_heads, case.head_dim)
    keys, values = normal(*shape), normal(*shape)
    for slot, now in zip(slots.tolist(), case.positions, strict=True):
        seen = {p % case.ring for p in range(max(now - case.window + 1, 0), now)}
        unseen = [r for r in range(case.ring) if r not in seen]
        keys[slot, unseen] = values[slot, unseen] = 100.0
    frequencies = 10_000.0 ** -(torch.arange(half, dtype=torch.float32) / half)
    qkv = normal(rows, (case.heads + 2 * case.kv_heads) * case.head_dim)
    kept, past = (qkv.to(device), keys.to(device), values.to(device)), (slots.to(device), position.to(device))
    return Inputs(*kept, *past, frequencies.to(device), case.window)


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    """A row reads its window's keys and values, and writes its own."""
    given = inputs(case, device, dtype)
    seen = sum(min(position + 1, case.window) for position in case.positions)
    token = 2 * case.kv_heads * case.head_dim * given.qkv.element_size()
    out = len(case.positions) * case.heads * case.head_dim * given.qkv.element_size()
    flops = 4.0 * seen * case.heads * case.head_dim
    moved = given.qkv.nbytes + seen * token + out
    return Work(ring_attention, plain, tuple(vars(given).values()), (given.keys, given.values), moved, flops)
