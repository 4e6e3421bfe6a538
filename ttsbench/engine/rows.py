"""The rows of a step as arrays: which slot, which position, which place in the cache. Plain NumPy over a plan.

Rows are packed: decoding sequences first, one row each, then prompt chunks. The sequences that get a frame from the
step (`StepPlan.finishing`) have a second, shorter list. A step padded to a bucket has more rows than the plan: they
stand in the scratch slot, whose cache block and codec state belong to nobody, and so reach no real row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ttsbench.engine.control import Control, Layout
from ttsbench.engine.scheduler import Sequence, StepPlan


def rows_layout(max_rows: int, num_slots: int) -> Layout:
    """Arrays for up to `max_rows` packed rows, of which `num_slots` yield a frame."""
    return {
        "slots": ((max_rows,), np.int64),
        "positions": ((max_rows,), np.int64),
        "kv_slots": ((max_rows,), np.int64),
        "finishing": ((num_slots,), np.int64),
        "frame_slots": ((num_slots,), np.int64),
        "frames": ((num_slots,), np.int64),
        "next_inputs": ((num_slots,), np.int64),
        "has_text": ((num_slots,), np.bool_),
    }


@dataclass(frozen=True)
class Scratch:
    """Where padding rows stand."""

    slot: int
    kv_slot: int
    """The first of a block of two positions at least."""


class RowWriter:
    """Writes plans into a control block. `tables` are the host's block tables [slots, blocks per slot]."""

    def __init__(self, control: Control, tables: np.ndarray, block_size: int, scratch: Scratch) -> None:
        self.host = control.host
        self.tables = tables
        self.block_size = block_size
        self.scratch = scratch

    def write(self, plan: StepPlan, rows: int, frames: int) -> None:
        """Fill the arrays for `plan`, padded to `rows` packed rows and `frames` rows that yield a frame."""
        slots = [s.slot for s in plan.decode]
        positions = [s.next_position for s in plan.decode]
        ends = list(range(len(slots)))
        for chunk in plan.chunks:
            slots += [chunk.sequence.slot] * chunk.rows
            positions += range(chunk.start, chunk.start + chunk.rows)
            if chunk.completes:
                ends.append(len(slots) - 1)
        self._put("slots", slots, rows, self.scratch.slot)
        self._put("positions", positions, rows, 0)
        self._put("kv_slots", self._places(slots, positions), rows, self.scratch.kv_slot)
        self._put("finishing", ends, frames, 0)
        self._write_frames(plan.finishing, frames)

    def _write_frames(self, finishing: tuple[Sequence, ...], frames: int) -> None:
        slots = [s.slot for s in finishing]
        joins = [min(s.prompt_rows + s.launched, s.prompt_rows + s.frame_limit - 1) for s in finishing]
        self._put("frame_slots", slots, frames, self.scratch.slot)
        self._put("frames", [s.launched for s in finishing], frames, 0)
        self._put("next_inputs", self._places(slots, joins), frames, self.scratch.kv_slot + 1)
        self._put("has_text", [s.launched < s.text_rows for s in finishing], frames, False)

    def _places(self, slots: list[int], positions: list[int]) -> np.ndarray:
        """Cache positions; the block table of each slot says where its blocks lie."""
        where = np.asarray(positions, dtype=np.int64)
        blocks = self.tables[np.asarray(slots, dtype=np.int64), where // self.block_size]
        return blocks.astype(np.int64) * self.block_size + where % self.block_size

    def _put(self, name: str, values: list[int] | list[bool] | np.ndarray, rows: int, padding: int | bool) -> None:
        array = self.host[name]
        assert len(values) <= rows <= len(array), (
            f"{name}: {len(values)} values and {rows} rows for {len(array)} places"
        )
        array[: len(values)] = values
        array[len(values) : rows] = padding
