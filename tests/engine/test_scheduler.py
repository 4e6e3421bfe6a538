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
    chunk = PrefillChunk(Sequence(request("a"), prompt_rows=150), 64, 86, completes=True)
    assert [(t.start, t.rows) for t in chunk.tiles(64)] == [(64, 64), (128, 22)]
    assert [t.completes for t in chunk.tiles(64)] == [False, True]


@given(
    prompts=st.lists(st.integers(1, 12), min_size=1, max_size=9),
    limits=st.lists(st.integers(1, 14), min_size=9, max_size=9),
    texts=st.lists(st.integers(0, 9), min_size=9, max_size=9),
    blocks=st.integers(7, 14),
    tile=st.sampled_from([1, 4]),
)
def test_growing_sequences_preempt_the_newest_and_all_finish(
    prompts: list[int], limits: list[int], texts: list[int], blocks: int, tile: int
) -> None:
    """Blocks of 4 for one request of 26 rows at least. Whoever runs or waits stands in the order of arrival, the oldest
    is never preempted, every step has the blocks that it writes, every frame is made once, and rows of a resumed
    sequence are those of its prompt and frames. Red if a preempted one goes to the back, if `places` forgets the input
    that follows from a frame, or if admission takes the last blocks that those who run will need.
    """
    target = Scheduler(SlotPool(4), BlockPool(blocks, 4), 12, tile, reserve=False)
    sequences = [add(target, str(i)) for i in range(len(prompts))]
    made, preempted = dict.fromkeys(sequences, 0), set[Sequence]()
    for _ in range(2000):
        while (candidate := target.candidate()) is not None:
            number = int(candidate.request.id)
            if not target.admit(candidate, prompts[number], limits[number], texts[number]):
                break
            preempted.discard(candidate)
        if not target.running:
            break
        oldest = target.running[0]
        for sequence in tuple(target.running):
            while sequence.slot >= 0 and target.grow(sequence) is None:
                preempted.add(target.running[-1])
                target.preempt(target.running[-1])
        assert target.running[0] is oldest
        assert len(preempted) < 4
        order = [int(s.request.id) for s in (*target.running, *target.waiting)]
        assert order == sorted(order)
        assert target.blocks.free + sum(len(s.blocks) for s in target.running) == blocks
        plan = target.plan()
        for chunk in plan.prefill:
            end, frames = chunk.start + chunk.rows, made[chunk.sequence]
            assert end <= chunk.sequence.prompt_rows + max(frames - 1, 0)
            assert chunk.completes == (end == chunk.sequence.prompt_rows and frames == 0)
        for sequence in plan.finishing:
            writes = sequence.prompt_rows + min(sequence.launched, sequence.frame_limit - 1)
            assert len(sequence.blocks) * 4 > writes
            assert sequence.launched == made[sequence]
            made[sequence] += 1
        target.advance(plan)
        for sequence in plan.finishing:
            if made[sequence] == sequence.frame_limit:
                target.drop(sequence)
    assert [made[s] for s in sequences] == limits[: len(prompts)]
    assert (target.slots.free, target.blocks.free) == (4, blocks)


def test_only_the_newest_can_be_preempted() -> None:
    target = Scheduler(SlotPool(2), BlockPool(8, 4), 12, reserve=False)
    first, second = add(target, "first"), add(target, "second")
    assert target.admit(first, 4, 4)
    assert target.admit(second, 4, 4)
    with pytest.raises(ValueError, match="first is not the newest that runs: second is"):
        target.preempt(first)
    target.preempt(second)
    assert list(target.waiting) == [second]
    assert target.blocks.free == 8 - len(first.blocks)


def test_admission_leaves_a_block_for_everyone_that_runs() -> None:
    """Else the newcomer would be preempted by the very next step. Red if `admit` takes all that is free."""
    target = Scheduler(SlotPool(4), BlockPool(6, 4), 12, reserve=False)
    first, second = add(target, "first"), add(target, "second")
    assert target.admit(first, 10, 8)
    assert len(first.blocks) == 3
    assert not target.admit(second, 8, 4)
    assert (second.slot, second.blocks) == (-1, [])
    assert target.admit(second, 7, 4)
