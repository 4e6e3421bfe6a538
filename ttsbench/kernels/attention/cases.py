"""Named batches of packed rows over a paged cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.attention import paged_attention
from ttsbench.kernels.attention.reference import Heads, KVRows, split_heads
from ttsbench.kernels.work import LARGE, Sizes, Work, nbytes


@dataclass(frozen=True)
class Case:
    """`spans` (first position, rows) of the sequences, one slot each; positions before the first are in the cache.

    Rows of a span stand last position first, so that one that needs another's key comes before it. Pages that no row
    may read hold NaN, those of the padding slot apart.
    """

    name: str
    spans: tuple[tuple[int, int], ...]
    heads: int
    kv_heads: int
    head_dim: int
    block_size: int = 16
    padding: int = 0
    """Rows at the end that share a slot and a place of their own."""

    @property
    def query_len(self) -> int:
        """The bound a caller gives: 1 for a decode step, else all rows."""
        decode = all(rows == 1 for _, rows in self.spans)
        return 1 if decode else self.padding + sum(rows for _, rows in self.spans)


EDGES = (0, 63, 64, 65, 200)
"""Positions on both sides of the keys of one iteration."""


def decode(positions: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple((position, 1) for position in positions)


SMALL = (
    Case("decode, grouped heads", decode(EDGES), 4, 2, 16, block_size=4),
    Case("decode, three heads of their own", decode(EDGES), 3, 3, 16),
    Case("decode, odd head width", decode((0, 5, 70)), 2, 1, 24, block_size=4),
    Case("decode, one row", decode((64,)), 4, 2, 64),
    Case("decode, padded", decode((63, 2)), 4, 2, 16, block_size=4, padding=3),
    Case("decode, released heads", decode((65, 3)), 16, 8, 128),
    Case("whole prompts", ((0, 1), (0, 9), (0, 66)), 4, 2, 16, block_size=4),
    Case("prompt chunks beside decode", ((64, 1), (200, 1), (60, 7), (0, 5)), 4, 2, 16),
    Case("prompt chunks, padded", ((3, 1), (62, 4)), 3, 3, 16, block_size=4, padding=5),
    Case("prompt chunks, released heads", ((65, 1), (62, 3)), 16, 8, 128),
)
HEADS = tuple(
    Case(f"{kind}, {h}/{k} heads of {e}, blocks of {size}", spans, h, k, e, size, padding)
    for h, k in ((4, 2), (3, 3), (16, 8))
    for e in (16, 64, 128)
    for size in (4, 16)
    for kind, spans, padding in (
        ("decode", decode(EDGES), 3),
        ("mixed", (*decode(EDGES), (0, 70), (60, 10), (197, 5)), 3),
    )
)
"""All heads and block sizes, decode and mixed."""
CODEBOOKS = 16
"""Positions of the code predictor."""


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """The talker's decode at two lengths and beside a new prompt, and the code predictor's."""
    return [
        *(Case(f"decode, {rows} rows at {at}", decode((at,) * rows), 16, 8, 128) for at in (64, 256)),
        Case(f"mixed, {rows} rows and a prompt of 32", (*decode((64,) * rows), (0, 32)), 16, 8, 128),
        Case(f"predictor, {rows} rows", decode((8,) * rows), 16, 8, 128),
    ]


@dataclass(frozen=True)
class Inputs:
    """In the order of the operation's arguments."""

    qkv: Tensor
    heads: Heads
    rows: KVRows
    keys: Tensor
    values: Tensor
    query_len: int


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype) -> Inputs:
    noise = torch.Generator().manual_seed(0)
    drawn = torch.Generator(device).manual_seed(0)  # on the device: a large cache has 35 million

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=drawn, device=device).to(dtype)

    slots = len(case.spans)
    length = max(2, *(start + rows for start, rows in case.spans))
    per_slot = -(-length // case.block_size)
    pages = torch.randperm(slots * per_slot + 1, generator=noise).int()
    tables = pages[-1].repeat(slots + 1, per_slot)
    tables[:slots] = pages[:-1].view(slots, per_slot)

    owners = [slot for slot, (_, rows) in enumerate(case.spans) for _ in range(rows)] + [slots] * case.padding
    standing = [at for start, rows in case.spans for at in reversed(range(start, start + rows))] + [0] * case.padding
    where = torch.tensor(owners), torch.tensor(standing)
    shape = (len(pages) * case.block_size, case.kv_heads, case.head_dim)
    keys, values = normal(*shape), normal(*shape)
    unread = _unread(case, tables, shape[0]).to(device)
    keys[unread], values[unread] = float("nan"), float("nan")
    angles = torch.outer(torch.arange(length), 100.0 ** -torch.linspace(0, 1, case.head_dim // 2))
    qkv = normal(len(owners), (case.heads + 2 * case.kv_heads) * case.head_dim)
    norm = normal(case.heads + case.kv_heads, case.head_dim)
    cos, sin = angles.cos().to(device, dtype), angles.sin().to(device, dtype)
    return Inputs(
        qkv,
        Heads(case.heads, case.kv_heads, case.head_dim, 1e-6, norm, cos, sin),
        KVRows(
            where[0].to(device), where[1].to(device), _places(tables, *where, case.block_size).to(device),
            tables.to(device), case.block_size,
        ),
        keys,
        values,
        case.query_len,
    )  # fmt: skip


def _places(tables: Tensor, slots: Tensor, positions: Tensor, block_size: int) -> Tensor:
    return tables[slots, positions // block_size].long() * block_size + positions % block_size


def _unread(case: Case, tables: Tensor, places: int) -> Tensor:
    """bool [places]: neither the past of a sequence nor a padding row's."""
    unread = torch.ones(places, dtype=torch.bool)
    for slot, (start, _) in enumerate(case.spans):
        past = torch.arange(start)
        unread[_places(tables, torch.full_like(past, slot), past, case.block_size)] = False
    first = int(tables[-1, 0]) * case.block_size
    unread[first : first + case.block_size] = False
    return unread


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    """A row reads the keys and values before it, a slot's own once, and writes its own."""
    given = inputs(case, device, dtype)
    width = case.head_dim * given.qkv.element_size()
    count = sum(rows for _, rows in case.spans)
    past = sum(start for start, _ in case.spans)
    seen = sum(start + row + 1 for start, rows in case.spans for row in range(rows))
    moved = nbytes(given.qkv) + count * case.heads * width + 2 * (past + count) * case.kv_heads * width
    flops = 4.0 * seen * case.heads * case.head_dim
    # The code predictor's cache is of this frame; the talker's has not been read since the last step.
    fresh = max(start + rows for start, rows in case.spans) <= CODEBOOKS
    cold = () if fresh else (given.keys, given.values)
    return Work(paged_attention, at_once, tuple(vars(given).values()), cold, moved, flops)


def at_once(qkv: Tensor, heads: Heads, rows: KVRows, keys: Tensor, values: Tensor, query_len: int) -> Tensor:
    """The operation by torch's attention: whole tables are gathered, and what a row may not see is masked."""
    cos, sin = heads.cos[rows.positions, None], heads.sin[rows.positions, None]
    q, k, v = split_heads(qkv, heads, cos, sin)
    keys[rows.kv_slots] = k
    values[rows.kv_slots] = v
    at = torch.arange(rows.tables.shape[1] * rows.block_size, device=qkv.device)
    where = rows.tables[rows.slots].long()[:, at // rows.block_size] * rows.block_size + at % rows.block_size
    seen = at <= rows.positions[:, None]
    out = F.scaled_dot_product_attention(
        q.unsqueeze(2), keys[where].transpose(1, 2), values[where].transpose(1, 2),
        attn_mask=seen[:, None, None], enable_gqa=heads.num_heads != heads.num_kv_heads,
    )  # fmt: skip
    return out.flatten(1)
