"""Which sequences run in the next step: plain Python over small integers.

Every running sequence whose prompt is done decodes one frame; what is left of the token budget goes to prompts, the
longest waiting first, in chunks. A waiting sequence is admitted when a slot and KV blocks are free for it.

Which blocks is one of two policies. `reserve`: all that it may ever need, so that a running one never stalls for
memory. Otherwise those of its prompt, and more as it grows; when there are none left, the newest running sequence is
preempted. It gives back slot and blocks and waits in front of all others; once it is back, its keys and values are
computed again, of the prompt and then of the frames that it has. So running and then waiting sequences always stand in
the order in which they came, no more of them are running or preempted than there are slots, and the oldest one, for
which the blocks of the whole pool suffice, is never preempted.
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
    """Rows of the prompt handed to the device, and of a sequence that was preempted those that are computed again."""
    launched: int = 0
    """Frames asked of the device. It may run ahead of what is known to have come back, past the end of speech too."""
    frames: int = 0
    """Frames that came back and count."""
    held: list[np.ndarray] = field(default_factory=list)
    """PCM of the newest frames, generated but not yet emitted."""
    chunks: int = 0
    announced: bool = False
    """Whether the maker of prompts has been told that it comes."""
    replay_rows: int = 0
    """Rows behind the prompt that a resumed sequence computes again: inputs of frames that it has."""
    ended: bool = False
    """It has had its last chunk and holds nothing; what is still under way for it is nobody's."""

    @property
    def decoding(self) -> bool:
        return self.prefilled == self.prompt_rows + self.replay_rows

    @property
    def next_position(self) -> int:
        """KV position that the next decode row writes."""
        return self.prompt_rows + self.launched - 1

    @property
    def input_rows(self) -> int:
        """Positions that hold an input: of the prompt, of the frames so far, and of text that waits."""
        return self.prompt_rows + min(max(self.text_rows, self.launched), self.frame_limit)

    @property
    def places(self) -> int:
        """Positions that need a block before its next frame: its inputs, and the input that follows from the frame."""
        return self.prompt_rows + min(max(self.text_rows, self.launched + 1), self.frame_limit)


@dataclass(frozen=True)
class PrefillChunk:
    """Rows [start, start + rows) of one sequence: of its prompt, or behind it if it was preempted."""

    sequence: Sequence
    start: int
    rows: int
    completes: bool
    """The first frame comes of its last row. Not where that frame was made before, in an earlier life."""

    def tiles(self, size: int) -> list[PrefillChunk]:
        """The same rows in pieces of `size`, the last one shorter."""
        end = self.start + self.rows
        return [
            PrefillChunk(self.sequence, at, min(size, end - at), self.completes and at + size >= end)
            for at in range(self.start, end, size)
        ]


@dataclass(frozen=True)
class StepPlan:
    """One step: sequences that decode a frame, then prompt chunks. Or a replay and nothing else."""

    decode: tuple[Sequence, ...]
    prefill: tuple[PrefillChunk, ...]
    replay: PrefillChunk | None = None
    """One row that decoded a frame before: the same again, but for the frame."""

    @property
    def chunks(self) -> tuple[PrefillChunk, ...]:
        """Rows that are not decoding ones."""
        return self.prefill if self.replay is None else (self.replay,)

    @property
    def sequences(self) -> tuple[Sequence, ...]:
        return (*self.decode, *(chunk.sequence for chunk in self.chunks))

    @property
    def kind(self) -> str:
        """What a step of it is counted as: of decoding rows alone, of prompt rows alone, mixed, or a replay."""
        if self.replay is not None:
            return "replay"
        return "decode" if not self.prefill else "mixed" if self.decode else "prefill"

    @property
    def finishing(self) -> tuple[Sequence, ...]:
        """Sequences that get a frame from this step: decoding ones, then prompts that complete."""
        return (*self.decode, *(c.sequence for c in self.prefill if c.completes))


class Scheduler:
    """Waiting and running sequences, their slots and blocks.

    `prefill_tile` > 1 cuts prompts only at its multiples and where they end, so that how a prompt is cut depends
    neither on the load nor on preemptions. `reserve`: the policy above.
    """

    def __init__(
        self, slots: SlotPool, blocks: BlockPool, token_budget: int, prefill_tile: int = 1, reserve: bool = True
    ) -> None:
        if token_budget < slots.num_slots - 1 + prefill_tile:
            raise ValueError(
                f"max_num_batched_tokens {token_budget} leaves no room for a prompt beside "
                f"{slots.num_slots - 1} decoding rows; it needs at least {slots.num_slots - 1 + prefill_tile}"
            )
        self.slots = slots
        self.blocks = blocks
        self.token_budget = token_budget
        self.prefill_tile = prefill_tile
        self.reserve = reserve
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def candidate(self) -> Sequence | None:
        """The longest-waiting sequence, if a slot is free for it."""
        return self.waiting[0] if self.waiting and self.slots.free else None

    def admit(self, sequence: Sequence, prompt_rows: int, frame_limit: int, text_rows: int = 0) -> bool:
        """Give the candidate a slot and blocks. False, with nothing taken, while blocks are short.

        Blocks that are not reserved are short while one is missing for each that runs: the next step might preempt.
        """
        sequence.prompt_rows, sequence.frame_limit, sequence.text_rows = prompt_rows, frame_limit, text_rows
        needed = self.blocks.needed(prompt_rows + frame_limit if self.reserve else sequence.places)
        if not self.reserve and self.blocks.free < needed + len(self.running):
            return False
        blocks = self.blocks.take(needed)
        if blocks is None:
            return False
        self.waiting.remove(sequence)
        sequence.blocks, sequence.slot = blocks, self.slots.take()
        sequence.replay_rows = max(sequence.launched - 1, 0)
        self.running.append(sequence)
        return True

    def grow(self, sequence: Sequence) -> list[int] | None:
        """The blocks that a running sequence takes for its next step, mostly none. None, and nothing taken, when too
        few are free: then somebody has to be preempted.
        """
        blocks = self.blocks.take(max(0, self.blocks.needed(sequence.places) - len(sequence.blocks)))
        if blocks is not None:
            sequence.blocks += blocks
        return blocks

    def preempt(self, sequence: Sequence) -> None:
        """Send the newest running sequence back to the front of those that wait, without slot and blocks."""
        if sequence is not self.running[-1]:
            raise ValueError(f"{sequence.request.id} is not the newest that runs: {self.running[-1].request.id} is")
        self._release(sequence)
        sequence.prefilled = 0
        self.waiting.appendleft(sequence)

    def drop(self, sequence: Sequence) -> None:
        """End a sequence, wherever it is, and free everything it holds at once."""
        if sequence in self.running:
            self._release(sequence)
        else:
            self.waiting.remove(sequence)
        sequence.ended = True

    def _release(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.blocks.give_back(sequence.blocks)
        self.slots.give_back(sequence.slot)
        sequence.blocks, sequence.slot = [], -1

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
            end = sequence.prefilled + rows
            completes = end == sequence.prompt_rows and sequence.launched == 0
            prefill.append(PrefillChunk(sequence, sequence.prefilled, rows, completes))
            left -= rows
        return StepPlan(decode, tuple(prefill))

    @staticmethod
    def advance(plan: StepPlan) -> None:
        """The plan is on its way: move on what depends on nothing that comes back."""
        for chunk in plan.chunks:
            chunk.sequence.prefilled += chunk.rows
        for sequence in plan.finishing:
            sequence.launched += 1

    def _chunk(self, sequence: Sequence, budget: int) -> int:
        """Rows for which the budget has room."""
        rest = sequence.prompt_rows + sequence.replay_rows - sequence.prefilled
        if self.prefill_tile > 1:
            if sequence.prefilled >= sequence.prompt_rows:
                return min(rest, budget)  # they run one by one
            rest -= sequence.replay_rows
        return rest if rest <= budget else budget // self.prefill_tile * self.prefill_tile
