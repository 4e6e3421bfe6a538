"""Who owns which KV block: plain Python over ids, no tensor in sight."""

from __future__ import annotations


class BlockPool:
    """Fixed-size pages of the KV cache."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        if num_blocks < 1 or block_size < 1:
            raise ValueError(f"need at least one block of one position, got {num_blocks} of {block_size}")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._free = list(range(num_blocks - 1, -1, -1))
        self._taken = bytearray(num_blocks)

    @property
    def free(self) -> int:
        return len(self._free)

    def needed(self, positions: int) -> int:
        """Blocks that hold `positions` KV positions."""
        return -(-positions // self.block_size)

    def take(self, count: int) -> list[int] | None:
        """`count` blocks, or None (and nothing taken) when fewer are free."""
        if count > len(self._free):
            return None
        blocks = [self._free.pop() for _ in range(count)]
        for block in blocks:
            self._taken[block] = 1
        return blocks

    def give_back(self, blocks: list[int]) -> None:
        if not all(self._taken[block] for block in blocks) or len(set(blocks)) != len(blocks):
            raise ValueError(f"blocks freed twice: {sorted(blocks)}")
        for block in blocks:
            self._taken[block] = 0
        self._free.extend(reversed(blocks))


class SlotPool:
    """Rows of the running batch."""

    def __init__(self, num_slots: int) -> None:
        if num_slots < 1:
            raise ValueError(f"need at least one slot, got {num_slots}")
        self.num_slots = num_slots
        self._free = list(range(num_slots - 1, -1, -1))

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self) -> int:
        return self._free.pop()

    def give_back(self, slot: int) -> None:
        if slot in self._free:
            raise ValueError(f"slot {slot} freed twice")
        self._free.append(slot)
