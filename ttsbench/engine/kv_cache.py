"""Paged keys and values of the talker, and attention over them for one packed step.

A position p of the sequence in slot s lives at `table[s, p // block] * block + p % block`. A step packs its decode rows
first and its prompt chunks after them; `StepAttention` holds the index tensors all layers share.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.engine.scheduler import StepPlan
from ttsbench.models.qwen3_tts.config import TransformerConfig
from ttsbench.models.qwen3_tts.transformer import grouped_attention


class PagedCache:
    """KV tensors [layers, 2, blocks * block size, K, E] and one block-table row per slot."""

    def __init__(
        self,
        config: TransformerConfig,
        num_blocks: int,
        block_size: int,
        num_slots: int,
        blocks_per_slot: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        shape = (config.num_layers, 2, num_blocks * block_size, config.num_kv_heads, config.head_dim)
        self.kv = torch.zeros(shape, device=device, dtype=dtype)
        self.block_size = block_size
        self.tables = torch.zeros((num_slots, blocks_per_slot), device=device, dtype=torch.int64)

    @staticmethod
    def bytes_per_position(config: TransformerConfig, dtype: torch.dtype) -> int:
        return config.num_layers * 2 * config.num_kv_heads * config.head_dim * dtype.itemsize

    def set_table(self, slot: int, blocks: list[int]) -> None:
        self.tables[slot, : len(blocks)] = torch.tensor(blocks, device=self.tables.device)

    def kv_slots(self, slots: Tensor, positions: Tensor) -> Tensor:
        """Flat cache indices [...] of `positions` [...] in `slots` (broadcast against them)."""
        return self.tables[slots, positions // self.block_size] * self.block_size + positions % self.block_size


class StepAttention:
    """An `Attend` over the packed rows [N, heads, E] of one step."""

    def __init__(self, cache: PagedCache, plan: StepPlan) -> None:
        device = cache.tables.device
        self.cache = cache
        slots = torch.tensor([s.slot for s in plan.decode], dtype=torch.int64, device=device)
        self.decode_positions = torch.tensor([s.next_position for s in plan.decode], dtype=torch.int64, device=device)
        self.num_decode = len(plan.decode)
        self.chunks: list[tuple[int, Tensor, Tensor]] = []
        writes, positions = [cache.kv_slots(slots, self.decode_positions)], [self.decode_positions]
        for chunk in plan.prefill:
            seen = torch.arange(chunk.start + chunk.rows, device=device)
            own = seen[chunk.start :]
            where = cache.kv_slots(torch.full_like(seen, chunk.sequence.slot), seen)
            self.chunks.append((chunk.rows, where, seen[None, :] <= own[:, None]))
            writes.append(where[chunk.start :])
            positions.append(own)
        self.writes = torch.cat(writes)
        self.positions = torch.cat(positions)
        self._index_decode(slots, plan)

    def _index_decode(self, slots: Tensor, plan: StepPlan) -> None:
        """Keys of every decode row, padded to the longest. Padding is the row's own first key: finite, and masked."""
        if not self.num_decode:
            return
        reach = torch.arange(max(s.next_position for s in plan.decode) + 1, device=slots.device)
        seen = reach[None, :] <= self.decode_positions[:, None]
        self.decode_keys = self.cache.kv_slots(slots[:, None], torch.where(seen, reach, 0))
        self.decode_mask = None if self.num_decode == 1 else seen[:, None]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self.cache.kv[layer]
        keys[self.writes] = k
        values[self.writes] = v
        out = []
        end = self.num_decode
        if end:
            where = self.decode_keys
            out.append(grouped_attention(q[:end, None], keys[where], values[where], self.decode_mask).squeeze(1))
        for rows, where, mask in self.chunks:
            start, end = end, end + rows
            out.append(grouped_attention(q[None, start:end], keys[where][None], values[where][None], mask).squeeze(0))
        return torch.cat(out) if len(out) > 1 else out[0]
