"""Who keeps keys and values: the paged cache for the talker, sixteen positions a row for the code predictor.

On a GPU both are the one paged kernel. On a CPU they are torch products shaped for what a step really has: decode rows
padded to the longest, prompt chunks as the stretches they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.scheduler import StepPlan
from ttsbench.kernels.attention import Heads, KVRows, paged_attention
from ttsbench.kernels.attention.reference import split_heads
from ttsbench.models.qwen3_tts.config import TransformerConfig
from ttsbench.models.qwen3_tts.packed import Attend, PackedStack
from ttsbench.models.qwen3_tts.transformer import grouped_attention


class KernelAttention:
    """The talker's `Attend` on a GPU; see `paged_attention` for `query_len`."""

    def __init__(self, cache: PagedCache, rows: KVRows, query_len: int) -> None:
        self.cache = cache
        self.rows = rows
        self.query_len = query_len

    def __call__(self, layer: int, qkv: Tensor, heads: Heads) -> Tensor:
        keys, values = self.cache.kv[layer]
        return paged_attention(qkv, heads, self.rows, keys, values, self.query_len)


class TorchAttention:
    """The talker's `Attend` on a CPU, over the packed rows of one plan."""

    def __init__(self, cache: PagedCache, plan: StepPlan, rows: KVRows, stack: PackedStack) -> None:
        self.cache = cache
        self.rows = rows
        self.cos, self.sin = stack.cos[rows.positions, None], stack.sin[rows.positions, None]
        self.num_decode = len(plan.decode) + (plan.replay is not None)  # a replay is a decode row but for its frame
        self.chunks: list[tuple[int, Tensor, Tensor]] = []
        for chunk in plan.prefill:
            seen = torch.arange(chunk.start + chunk.rows)
            where = self._places(torch.full_like(seen, chunk.sequence.slot), seen)
            self.chunks.append((chunk.rows, where, seen[None, :] <= seen[chunk.start :, None]))
        if self.num_decode:
            self._index_decode(rows.slots[: self.num_decode], rows.positions[: self.num_decode])

    def _places(self, slots: Tensor, positions: Tensor) -> Tensor:
        size = self.rows.block_size
        return self.rows.tables[slots, positions // size].long() * size + positions % size

    def _index_decode(self, slots: Tensor, positions: Tensor) -> None:
        """Keys of every decode row, padded to the longest. Padding is the row's own first key: finite, and masked."""
        reach = torch.arange(int(positions.max()) + 1)
        seen = reach[None, :] <= positions[:, None]
        self.decode_keys = self._places(slots[:, None], torch.where(seen, reach, 0))
        self.decode_mask = None if self.num_decode == 1 else seen[:, None]

    def __call__(self, layer: int, qkv: Tensor, heads: Heads) -> Tensor:
        q, k, v = split_heads(qkv, heads, self.cos, self.sin)
        keys, values = self.cache.kv[layer]
        keys[self.rows.kv_slots] = k
        values[self.rows.kv_slots] = v
        out = []
        end = self.num_decode
        if end:
            where = self.decode_keys
            out.append(grouped_attention(q[:end, None], keys[where], values[where], self.decode_mask).squeeze(1))
        for rows, where, mask in self.chunks:
            start, end = end, end + rows
            out.append(grouped_attention(q[None, start:end], keys[where][None], values[where][None], mask).squeeze(0))
        return (torch.cat(out) if len(out) > 1 else out[0]).flatten(1)


class FrameCache:
    """Keys and values of the code predictor: Q positions for each row of a step, started anew with every frame."""

    def __init__(
        self, config: TransformerConfig, rows: int, positions: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        shape = (config.num_layers, 2, rows, positions, config.num_kv_heads, config.head_dim)
        self.kv = torch.zeros(shape, device=device, dtype=dtype)
        ids = torch.arange(rows, device=device)
        steps = torch.arange(positions, device=device)[:, None]
        self.slots = ids
        self.positions = steps.repeat(1, rows)
        self.kv_slots = ids * positions + steps
        self.tables = ids[:, None].int()
        self.first_two = tuple(
            part.flatten() for part in (ids[:, None].repeat(1, 2), self.positions[:2].T, self.kv_slots[:2].T)
        )
        """Slots, positions and places of positions 0 and 1 of each row, side by side: 2 R of each."""

    def attend(self, rows: int, position: int) -> Attend:
        """An `Attend` for one position of each of the first `rows` rows."""
        if self.kv.device.type == "cpu":
            return _FrameTorch(self.kv[:, :, :rows], position)
        slots, positions, places = self.slots[:rows], self.positions[position, :rows], self.kv_slots[position, :rows]
        where = KVRows(slots, positions, places, self.tables, len(self.positions))
        return _FrameKernel(self.kv.flatten(2, 3), where, query_len=1)

    def attend_first_two(self, rows: int) -> Attend:
        """An `Attend` for positions 0 and 1 of each of the first `rows` rows, the two of a row side by side."""
        if self.kv.device.type == "cpu":
            return _FrameTorchPairs(self.attend(rows, 0), self.attend(rows, 1))
        slots, positions, places = (part[: 2 * rows] for part in self.first_two)
        where = KVRows(slots, positions, places, self.tables, len(self.positions))
        return _FrameKernel(self.kv.flatten(2, 3), where, query_len=2)


class _FrameKernel:
    def __init__(self, kv: Tensor, rows: KVRows, query_len: int) -> None:
        self.kv = kv
        self.rows = rows
        self.query_len = query_len

    def __call__(self, layer: int, qkv: Tensor, heads: Heads) -> Tensor:
        keys, values = self.kv[layer]
        return paged_attention(qkv, heads, self.rows, keys, values, self.query_len)


class _FrameTorch:
    def __init__(self, kv: Tensor, position: int) -> None:
        self.kv = kv
        self.position = position

    def __call__(self, layer: int, qkv: Tensor, heads: Heads) -> Tensor:
        at = self.position
        q, k, v = split_heads(qkv, heads, heads.cos[at], heads.sin[at])
        keys, values = self.kv[layer]
        keys[:, at] = k
        values[:, at] = v
        return grouped_attention(q[:, None], keys[:, : at + 1], values[:, : at + 1]).flatten(1)


class _FrameTorchPairs:
    """Two positions as two calls, the first one's keys in place before the second looks for them."""

    def __init__(self, first: Attend, second: Attend) -> None:
        self.first = first
        self.second = second

    def __call__(self, layer: int, qkv: Tensor, heads: Heads) -> Tensor:
        first, second = self.first(layer, qkv[::2], heads), self.second(layer, qkv[1::2], heads)
        return torch.stack((first, second), dim=1).flatten(0, 1)
