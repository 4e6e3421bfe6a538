"""Input rows find their pages, and nothing else is written."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.models.qwen3_tts.exactness import toy
from ttsbench.engine.kv_cache import PagedCache

CONFIG = replace(toy("toy-custom-voice").config.talker, hidden_size=3)


@pytest.mark.parametrize("blocks", [[7, 2, 9], [2, 3, 4], [4, 3, 2], [9, 0, 1]], ids=str)
@pytest.mark.parametrize(("start", "count"), [(0, 12), (0, 1), (3, 1), (3, 2), (1, 10), (4, 4), (5, 7), (7, 0)])
def test_input_rows_lie_where_the_block_table_says(blocks: list[int], start: int, count: int) -> None:
    """Blocks side by side, apart, and in reverse; starts and ends within a block. Red if a run of neighbouring blocks
    goes on too long, or stops short: try `here >= first + length`, or leave out the last `yield`.
    """
    cache = PagedCache(CONFIG, 10, 4, torch.device("cpu"), torch.float64)
    cache.inputs.fill_(-1)
    expected = cache.inputs.clone()
    rows = torch.randn(count, 3, dtype=torch.float64)
    for number, position in enumerate(range(start, start + count)):
        expected[blocks[position // 4] * 4 + position % 4] = rows[number]
    cache.write_inputs(blocks, rows, start)
    assert torch.equal(cache.inputs, expected)


@pytest.mark.parametrize("blocks", [[7, 2, 9], [2, 3, 4], [4, 3, 2], [9, 0, 1]], ids=str)
@pytest.mark.parametrize("count", [1, 4, 5, 12])
def test_input_rows_are_read_where_they_were_written(blocks: list[int], count: int) -> None:
    """And are a copy: the blocks are somebody else's next. Red with a view, or with blocks in order of their ids."""
    cache = PagedCache(CONFIG, 10, 4, torch.device("cpu"), torch.float64)
    rows = torch.randn(12, 3, dtype=torch.float64)
    cache.write_inputs(blocks, rows, 0)
    read = cache.read_inputs(blocks, count)
    cache.inputs.fill_(-1)
    assert torch.equal(read, rows[:count])


def test_the_scratch_block_is_one_more_than_the_scheduler_knows() -> None:
    cache = PagedCache(CONFIG, 10, 4, torch.device("cpu"), torch.float32)
    assert cache.scratch_block == 10
    assert len(cache.inputs) == cache.kv.shape[2] == 44


def test_bytes_per_position_is_what_a_position_takes() -> None:
    """Red if keys, values or inputs are forgotten: the cache would not fit into what it was planned for."""
    cache = PagedCache(CONFIG, 10, 4, torch.device("cpu"), torch.bfloat16)
    assert PagedCache.bytes_per_position(CONFIG, torch.bfloat16) * 44 == cache.kv.nbytes + cache.inputs.nbytes
