"""Paged attention of a mixed step equals a dense cache per sequence."""

from __future__ import annotations

import pytest
import torch

from tests.engine.toys import request
from tests.models.qwen3_tts.exactness import toy
from ttsbench.engine.kv_cache import PagedCache, StepAttention
from ttsbench.engine.scheduler import PrefillChunk, Sequence, StepPlan
from ttsbench.models.qwen3_tts.transformer import DenseCache

CONFIG = toy("toy-custom-voice").config.talker
BLOCKS = {0: [7, 2, 9], 1: [0, 5, 4], 2: [3, 8, 1]}
"""Out of order on purpose: a table that is ignored would read the wrong pages."""


def made(slot: int, prompt_rows: int, prefilled: int, frames: int = 0) -> Sequence:
    return Sequence(request(str(slot)), prompt_rows, 8, slot, BLOCKS[slot], prefilled, frames)


def heads(rows: int, count: int) -> torch.Tensor:
    return torch.randn(rows, count, CONFIG.head_dim, dtype=torch.float64)


def run(sabotage: str = "") -> float:
    """Largest difference to dense caches over three steps: prefill, prefill beside decode, decode of rows of three
    lengths.
    """
    cache = PagedCache(CONFIG, 10, 4, 3, 3, torch.device("cpu"), torch.float64)
    cache.kv.fill_(float("nan"))
    dense = {slot: DenseCache(CONFIG, 1, 12, cache.kv) for slot in BLOCKS}
    for slot, blocks in BLOCKS.items():
        cache.set_table(slot, sorted(blocks) if sabotage == "table" else blocks)
        if sabotage == "table" and slot == 2:
            cache.set_table(slot, sorted(BLOCKS[0]))
    a, b, c = made(0, 5, 0), made(1, 9, 0), made(2, 3, 0)
    worst = 0.0

    def step(plan: StepPlan, rows: list[tuple[Sequence, int]]) -> None:
        nonlocal worst
        attend, total = StepAttention(cache, plan), sum(n for _, n in rows)
        for layer in range(CONFIG.num_layers):
            q, k, v = (
                heads(total, CONFIG.num_heads),
                heads(total, CONFIG.num_kv_heads),
                heads(total, CONFIG.num_kv_heads),
            )
            ours, at = attend(layer, q, k, k if sabotage == "alias" else v), 0
            for sequence, count in rows:
                part = slice(at, at + count)
                theirs = dense[sequence.slot].attend(layer, q[None, part], k[None, part], v[None, part])[0]
                gap = (ours[part] - theirs).abs().max()
                worst = max(worst, float("inf") if gap.isnan() else float(gap))
                at += count
        for sequence, count in rows:
            dense[sequence.slot].advance(count)

    step(StepPlan((), (PrefillChunk(a, 0, 5), PrefillChunk(b, 0, 4))), [(a, 5), (b, 4)])
    a.prefilled, a.frames, b.prefilled = 5, 1, 4
    step(StepPlan((a,), (PrefillChunk(b, 4, 5), PrefillChunk(c, 0, 3))), [(a, 1), (b, 5), (c, 3)])
    a.frames, b.prefilled, b.frames, c.prefilled, c.frames = 2, 9, 1, 3, 1
    step(StepPlan((a, b, c), ()), [(a, 1), (b, 1), (c, 1)])
    return worst


def test_paged_equals_dense_with_the_rest_of_the_cache_poisoned() -> None:
    """Float64, so 1e-12 is rounding; NaN in unwritten pages shows any read beyond a sequence's own keys."""
    assert run() < 1e-12


@pytest.mark.parametrize("sabotage", ["table", "alias"])
def test_a_shared_page_and_k_in_place_of_v_are_noticed(sabotage: str) -> None:
    assert run(sabotage) > 1e-3
