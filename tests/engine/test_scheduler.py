"""Blocks, slots and plans as plain integers: nothing is lost, shared or starved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.toys import request
from ttsbench.engine.blocks import BlockPool, SlotPool
from ttsbench.engine.scheduler import PrefillChunk, Scheduler, Sequence, StepPlan


def scheduler(slots: int = 4, blocks: int = 64, block_size: int = 4, budget: int = 32, tile: int = 1) -> Scheduler:
    return Scheduler(SlotPool(slots), BlockPool(blocks, block_size), budget, tile)


def add(target: Scheduler, name: str) -> Sequence:
    sequence = Sequence(request(name))
    target.add(sequence)
    return sequence


def run_step(target: Scheduler) -> StepPlan:
    """Plan a step and pretend it ran."""
    plan = target.plan()
    for chunk in plan.prefill:
        chunk.sequence.prefilled += chunk.rows
    for sequence in plan.finishing:
        sequence.frames += 1
    return plan


def test_blocks_are_owned_by_one_sequence_and_come_back() -> None:
    pool = BlockPool(8, 16)
    first, second = pool.take(3), pool.take(5)
    assert first is not None
    assert second is not None
    assert sorted(first + second) == list(range(8))
    assert pool.take(1) is None
    pool.give_back(first)
    assert pool.free == 3
    with pytest.raises(ValueError, match="freed twice"):
        pool.give_back(first)


def test_a_refused_take_takes_nothing() -> None:
    pool = BlockPool(4, 16)
    assert pool.take(5) is None
    assert pool.free == 4


def test_a_slot_cannot_be_freed_twice() -> None:
    slots = SlotPool(2)
    slot = slots.take()
    slots.give_back(slot)
    with pytest.raises(ValueError, match="freed twice"):
        slots.give_back(slot)


def test_blocks_cover_prompt_and_every_frame() -> None:
    """Red if admission counts the prompt alone: the last frames would have nowhere to write."""
    target = scheduler()
    sequence = add(target, "a")
    assert target.admit(sequence, prompt_rows=5, frame_limit=4)
    assert len(sequence.blocks) == 3


def test_admission_waits_for_blocks_and_keeps_order() -> None:
    """A short request does not overtake a long one that waits for memory: the longest-waiting comes first."""
    target = scheduler(blocks=4)
    first, second = add(target, "first"), add(target, "second")
    assert target.admit(first, 8, 8)
    assert target.candidate() is second
    assert not target.admit(second, 4, 4)
    assert target.waiting[0] is second
    target.drop(first)
    assert target.admit(second, 4, 4)


def test_no_slot_no_candidate() -> None:
    target = scheduler(slots=1)
    sequence = add(target, "a")
    add(target, "b")
    assert target.admit(sequence, 1, 1)
    assert target.candidate() is None


def test_a_budget_without_room_for_prompts_is_refused() -> None:
    """Else four decoding rows would lock a fifth out for good; red without the check in the constructor."""
    with pytest.raises(ValueError, match="max_num_batched_tokens 3 leaves no room"):
        scheduler(slots=4, budget=3)
    with pytest.raises(ValueError, match="needs at least 67"):
        scheduler(slots=4, budget=66, tile=64)


@given(
    prompts=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    limits=st.lists(st.integers(1, 6), min_size=8, max_size=8),
    budget=st.integers(4, 40),
    tile=st.sampled_from([1, 1, 4]),
)
def test_every_prompt_row_runs_once_in_order_within_the_budget(
    prompts: list[int], limits: list[int], budget: int, tile: int
) -> None:
    """Red if a chunk starts anywhere but where the last one ended, if decode rows are not counted against the budget,
    if
    a running sequence is skipped, or if a tile is cut.
    """
    target = scheduler(slots=4, budget=budget + tile, tile=tile)
    waiting = dict(zip(map(str, range(8)), prompts, strict=False))
    for name in waiting:
        add(target, name)
    seen: dict[str, int] = dict.fromkeys(waiting, 0)
    finished: list[str] = []
    for _ in range(1000):
        while (sequence := target.candidate()) and target.admit(
            sequence, waiting[sequence.request.id], limits[int(sequence.request.id)]
        ):
            pass
        if not target.running:
            break
        decoding = [s for s in target.running if s.decoding]
        plan = run_step(target)
        assert len(plan.decode) + sum(c.rows for c in plan.prefill) <= budget + tile
        assert list(plan.decode) == decoding
        for chunk in plan.prefill:
            name = chunk.sequence.request.id
            assert chunk.start == seen[name]
            assert chunk.completes or (chunk.start + chunk.rows) % tile == 0
            seen[name] += chunk.rows
        for sequence in plan.finishing:
            if sequence.frames == sequence.frame_limit:
                finished.append(sequence.request.id)
                target.drop(sequence)
    assert sorted(finished) == sorted(waiting)
    assert seen == waiting
    assert target.slots.free == 4
    assert target.blocks.free == 64


def test_a_short_prompt_does_not_overtake_one_that_waits_for_its_tile() -> None:
    """Three rows of budget are left: too few for the tile of the next in line, and not for the one behind it either."""
    target = scheduler(budget=67, tile=64, blocks=400)
    rows = {"first": 64, "second": 100, "third": 2}
    for name, count in rows.items():
        assert target.admit(add(target, name), count, 4)
    assert [c.sequence.request.id for c in target.plan().prefill] == ["first"]


def test_dropping_frees_everything_at_once() -> None:
    target = scheduler()
    sequence = add(target, "a")
    target.admit(sequence, 10, 10)
    assert target.blocks.free < 64
    target.drop(sequence)
    assert (target.blocks.free, target.slots.free) == (64, 4)
    assert (sequence.blocks, sequence.slot) == ([], -1)


def test_tiles_cut_a_chunk_without_overlap() -> None:
    chunk = PrefillChunk(Sequence(request("a"), prompt_rows=150), 64, 86)
    assert [(t.start, t.rows) for t in chunk.tiles(64)] == [(64, 64), (128, 22)]
    assert [t.completes for t in chunk.tiles(64)] == [False, True]
