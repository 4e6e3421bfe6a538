"""Paged memory of the talker: keys, values, and the input row of every position.

A position p of the sequence in slot s lives at `table[s, p // block] * block + p % block`, in the cache as in the
inputs. Input rows are written before their step runs: the prompt's at the start, with the text rows that wait for
later frames behind it, and each next input in place of its text row. So the rows that a step feeds are one gather
whatever they are, and the exact inputs of a sequence so far are all there.

One block more than the scheduler knows belongs to the padding rows, of two positions at least.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ttsbench.models.qwen3_tts.config import TransformerConfig


class PagedCache:
    """`kv` [layers, 2, positions, K, E] and `inputs` [positions, D] in blocks of `block_size` positions."""

    def __init__(
        self, config: TransformerConfig, num_blocks: int, block_size: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        positions = num_blocks * block_size + max(block_size, 2)  # padding rows stand at one and write another
        shape = (config.num_layers, 2, positions, config.num_kv_heads, config.head_dim)
        self.kv = torch.zeros(shape, device=device, dtype=dtype)
        self.inputs = torch.zeros((positions, config.hidden_size), device=device, dtype=dtype)
        self.block_size = block_size
        self.num_blocks = num_blocks

    @staticmethod
    def bytes_per_position(config: TransformerConfig, dtype: torch.dtype) -> int:
        """Of keys, values and input row."""
        return (config.num_layers * 2 * config.num_kv_heads * config.head_dim + config.hidden_size) * dtype.itemsize

    @property
    def scratch_block(self) -> int:
        return self.num_blocks

    def write_inputs(self, blocks: list[int], rows: Tensor, start: int) -> None:
        """Put input rows [n, D] at positions start.. of a sequence that owns `blocks`."""
        done = 0
        for first, count in _runs(blocks, self.block_size, start, len(rows)):
            self.inputs[first : first + count].copy_(rows[done : done + count])
            done += count

    def read_inputs(self, blocks: list[int], count: int) -> Tensor:
        """The first `count` input rows [count, D] of a sequence that owns `blocks`, in memory of their own."""
        runs = _runs(blocks, self.block_size, 0, count)
        return torch.cat([self.inputs[first : first + length] for first, length in runs])


def _runs(blocks: list[int], block_size: int, start: int, count: int) -> Iterator[tuple[int, int]]:
    """(first cache position, length) of stretches that lie side by side, so that few copies write many rows."""
    first = length = 0
    position, end = start, start + count
    while position < end:
        here = blocks[position // block_size] * block_size + position % block_size
        size = min(block_size - position % block_size, end - position)
        if length and here == first + length:
            length += size
        else:
            if length:
                yield first, length
            first, length = here, size
        position += size
    if length:
        yield first, length
