"""Which sequences run in the next step: plain Python over small integers.

Every running sequence whose prompt is done decodes one frame; what is left of the token budget goes to prompts, the
longest waiting first, in chunks. A waiting sequence is admitted when a slot and all the KV blocks it may ever need
are free, so a running one never stalls for memory.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from ttsbench.core import SpeechRequest
from ttsbench.engine.blocks import BlockPool, SlotPool


@dataclass(eq=False)
class Sequence:
    """Host-side state of one request."""

    request: SpeechRequest
    prompt_rows: int = 0
    text_rows: int = 0
    """Text rows that join the first frames, one each."""
    frame_limit: int = 0
    slot: int = -1
    blocks: list[int] = field(default_factory=list)
    prefilled: int = 0
    """Prompt rows handed to the device."""
    launched: int = 0
    """Frames asked of the device. It may run ahead of what is known to have come back, past the end of speech too."""
    frames: int = 0
    """Frames that came back and count."""
    held: list[np.ndarray] = field(default_factory=list)
    """PCM of the newest frames, generated but not yet emitted."""
    chunks: int = 0
    announced: bool = False
    """Whether the maker of prompts has been told that it comes."""

    @property
    def decoding(self) -> bool:
        return self.prefilled == self.prompt_rows

    @property
    def next_position(self) -> int:
        """KV position that the next decode row writes."""
        return self.prompt_rows + self.launched - 1

    @property
    def ended(self) -> bool:
        """It holds no slot any more; what is still under way for it is nobody's."""
        return self.slot < 0


@dataclass(frozen=True)
class PrefillChunk:
    """Prompt rows [start, start + rows) of one sequence."""

    sequence: Sequence
    start: int
    rows: int

    @property
    def completes(self) -> bool:
        return self.start + self.rows == self.sequence.prompt_rows

    def tiles(self, size: int) -> list[PrefillChunk]:
        """The same rows in pieces of `size`, the last one shorter."""
        end = self.start + self.rows
        return [PrefillChunk(self.sequence, at, min(size, end - at)) for at in range(self.start, end, size)]


@dataclass(frozen=True)
class StepPlan:
    """One step: sequences that decode a frame, then prompt chunks."""

    decode: tuple[Sequence, ...]
    prefill: tuple[PrefillChunk, ...]

    @property
    def finishing(self) -> tuple[Sequence, ...]:
        """Sequences that get a frame from this step: decoding ones, then prompts that complete."""
        return (*self.decode, *(c.sequence for c in self.prefill if c.completes))


class Scheduler:
    """Waiting and running sequences, their slots and blocks.

    `prefill_tile` > 1 cuts prompts only at its multiples, so that how a prompt is cut does not depend on the load.
    """

    def __init__(self, slots: SlotPool, blocks: BlockPool, token_budget: int, prefill_tile: int = 1) -> None:
        if token_budget < slots.num_slots - 1 + prefill_tile:
            raise ValueError(
                f"max_num_batched_tokens {token_budget} leaves no room for a prompt beside "
                f"{slots.num_slots - 1} decoding rows; it needs at least {slots.num_slots - 1 + prefill_tile}"
            )
        self.slots = slots
        self.blocks = blocks
        self.token_budget = token_budget
        self.prefill_tile = prefill_tile
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def candidate(self) -> Sequence | None:
        """The longest-waiting sequence, if a slot is free for it."""
        return self.waiting[0] if self.waiting and self.slots.free else None

    def admit(self, sequence: Sequence, prompt_rows: int, frame_limit: int, text_rows: int = 0) -> bool:
        """Give the candidate its slot and blocks. False, with nothing taken, while blocks are short."""
        blocks = self.blocks.take(self.blocks.needed(prompt_rows + frame_limit))
        if blocks is None:
            return False
        self.waiting.remove(sequence)
        sequence.prompt_rows, sequence.frame_limit, sequence.blocks = prompt_rows, frame_limit, blocks
        sequence.text_rows = text_rows
        sequence.slot = self.slots.take()
        self.running.append(sequence)
        return True

    def drop(self, sequence: Sequence) -> None:
        """Remove a sequence, wherever it is, and free everything it holds at once."""
        if sequence in self.running:
            self.running.remove(sequence)
            self.blocks.give_back(sequence.blocks)
            self.slots.give_back(sequence.slot)
            sequence.blocks, sequence.slot = [], -1
        else:
            self.waiting.remove(sequence)

    def plan(self) -> StepPlan:
        """The next step, in admission order. Empty when nothing runs."""
        decode = tuple(s for s in self.running if s.decoding)
        left = self.token_budget - len(decode)
        prefill = []
        for sequence in self.running:
            if sequence.decoding:
                continue
            rows = self._chunk(sequence, left)
            if rows == 0:
                break
            prefill.append(PrefillChunk(sequence, sequence.prefilled, rows))
            left -= rows
        return StepPlan(decode, tuple(prefill))

    @staticmethod
    def advance(plan: StepPlan) -> None:
        """The plan is on its way: move on what depends on nothing that comes back."""
        for chunk in plan.prefill:
            chunk.sequence.prefilled += chunk.rows
        for sequence in plan.finishing:
            sequence.launched += 1

    def _chunk(self, sequence: Sequence, budget: int) -> int:
        rest = sequence.prompt_rows - sequence.prefilled
        return rest if rest <= budget else budget // self.prefill_tile * self.prefill_tile
