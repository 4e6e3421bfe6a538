"""A plan as arrays: who stands where, where its key goes, where its next input goes, and where padding stands."""

from __future__ import annotations

import numpy as np
import torch

from tests.engine.toys import request
from ttsbench.engine.control import Control
from ttsbench.engine.rows import RowWriter, Scratch, rows_layout
from ttsbench.engine.scheduler import PrefillChunk, Sequence, StepPlan

BLOCK = 4
SLOTS = 5
"""The last one is for padding rows."""
BLOCKS = {0: [7, 2, 9], 1: [0, 5, 4], 2: [3, 8, 1]}
"""Out of order on purpose: a table that is ignored would show."""
SCRATCH = Scratch(slot=SLOTS - 1, kv_slot=10 * BLOCK)


def made(slot: int, prompt_rows: int, prefilled: int, launched: int) -> Sequence:
    """At most three frames, of which text joins two."""
    return Sequence(request(str(slot)), prompt_rows, 2, 3, slot, BLOCKS[slot], prefilled, launched=launched)


def written(plan: StepPlan, rows: int, frames: int) -> dict[str, list[int]]:
    """The arrays of a step, as far as the step reads them."""
    control = Control({**rows_layout(16, SLOTS - 1), "tables": ((SLOTS, 3), np.int32)}, torch.device("cpu"), ring=1)
    for array in control.host.values():
        array[...] = 77 if array.dtype != np.bool_ else True  # what an earlier step left behind
    tables = control.host["tables"]
    tables[-1] = 10
    for slot, blocks in BLOCKS.items():
        tables[slot] = blocks
    RowWriter(control, tables, BLOCK, SCRATCH).write(plan, rows, frames)
    per_row = ("slots", "positions", "kv_slots")
    return {name: control.host[name][: rows if name in per_row else frames].tolist() for name in rows_layout(1, 1)}


MIXED = StepPlan(
    (made(0, 5, 5, 1),),
    (PrefillChunk(made(1, 9, 4, 0), 4, 5, completes=True), PrefillChunk(made(2, 6, 0, 0), 0, 2, completes=False)),
)
"""A decode row at position 5, a prompt that completes, and one that does not."""


def test_rows_stand_at_their_positions_in_their_own_blocks() -> None:
    """Red if blocks are taken in the order of their ids, or if a decode row stands one position off."""
    rows = written(MIXED, rows=8, frames=2)
    assert rows["slots"] == [0] + [1] * 5 + [2] * 2
    assert rows["positions"] == [5, 4, 5, 6, 7, 8, 0, 1]
    assert rows["kv_slots"] == [2 * 4 + 1, 5 * 4, 5 * 4 + 1, 5 * 4 + 2, 5 * 4 + 3, 4 * 4, 3 * 4, 3 * 4 + 1]


def test_only_sequences_that_finish_a_step_get_a_frame() -> None:
    """The decode row, and the last row of the prompt that completes. Red if a prompt's first row is taken, or one that
    goes on yields a frame."""
    rows = written(MIXED, rows=8, frames=2)
    assert rows["finishing"] == [0, 5]
    assert rows["frame_slots"] == [0, 1]
    assert rows["frames"] == [1, 0]
    assert rows["next_inputs"] == [2 * 4 + 2, 4 * 4 + 1]


def test_the_next_input_stands_behind_the_newest_frame_and_never_beyond_the_last_block() -> None:
    """Frames 0, 1, 2 of a limit of 3 after 5 prompt rows join at positions 5, 6, 7, and so does a frame asked for past
    the end. Red without the bound: position 8 belongs to nobody, or to a third block that was not taken.
    """
    for launched, position in ((0, 5), (1, 6), (2, 7), (3, 7)):
        plan = StepPlan((made(0, 5, 5, launched),), ())
        assert written(plan, 1, 1)["next_inputs"] == [BLOCKS[0][position // 4] * 4 + position % 4]


def test_text_joins_the_first_frames() -> None:
    """Two text rows: frames 0 and 1. Red with <=, which would take an earlier owner's row for the third."""
    for launched, has_text in ((0, True), (1, True), (2, False)):
        assert written(StepPlan((made(0, 5, 5, launched),), ()), 1, 1)["has_text"] == [has_text]


def test_padding_stands_in_the_scratch_slot_and_block() -> None:
    """Its key and its next input go to places that nobody reads. Red if what an earlier step wrote stays there."""
    rows = written(MIXED, rows=11, frames=4)
    assert rows["slots"][8:] == [SCRATCH.slot] * 3
    assert rows["positions"][8:] == [0] * 3
    assert rows["kv_slots"][8:] == [SCRATCH.kv_slot] * 3
    assert rows["finishing"][2:] == [0] * 2
    assert rows["frame_slots"][2:] == [SCRATCH.slot] * 2
    assert rows["frames"][2:] == [0] * 2
    assert rows["next_inputs"][2:] == [SCRATCH.kv_slot + 1] * 2
    assert rows["has_text"][2:] == [False] * 2


def test_a_step_of_padding_alone_touches_nobody() -> None:
    rows = written(StepPlan((), ()), rows=2, frames=2)
    assert rows["slots"] == rows["frame_slots"] == [SCRATCH.slot] * 2
    assert rows["kv_slots"] == [SCRATCH.kv_slot] * 2
