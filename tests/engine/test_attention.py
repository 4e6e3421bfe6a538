"""Attention over the talker's pages and over the code predictor's frame equals a dense cache per sequence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.toys import request
from tests.models.qwen3_tts.exactness import toy
from ttsbench.engine.attention import FrameCache, KernelAttention, TorchAttention
from ttsbench.engine.control import Control
from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.rows import RowWriter, Scratch, rows_layout
from ttsbench.engine.scheduler import PrefillChunk, Sequence, StepPlan
from ttsbench.kernels.attention import Heads, KVRows
from ttsbench.models.qwen3_tts.packed import Attend, PackedStack
from ttsbench.models.qwen3_tts.transformer import DecoderStack, DenseCache, rotary_angles, rotate

CONFIG = toy("toy-custom-voice").config.talker
BLOCKS = {0: [7, 2, 9], 1: [0, 5, 4], 2: [3, 8, 1]}
"""Out of order on purpose: a table that is ignored would read the wrong pages."""
BLOCK, NUM_BLOCKS, SLOTS = 4, 10, 4
TURNING = CONFIG.num_heads + CONFIG.num_kv_heads
WIDTH = (TURNING + CONFIG.num_kv_heads) * CONFIG.head_dim


def made_stack() -> PackedStack:
    """Random norms of every head, so that one taken for another shows."""
    stack = DecoderStack(CONFIG).double()
    for parameter in stack.parameters():
        torch.nn.init.normal_(parameter)
    return PackedStack(stack, 64)


def dense(cache: DenseCache, layer: int, heads: Heads, qkv: Tensor) -> Tensor:
    """[B, T, H * E] of `qkv` [B, T, width] at the cache's next positions, by the modules' own formulas."""
    packed = qkv.unflatten(-1, (-1, heads.head_dim))
    turning, v = packed[..., :TURNING, :], packed[..., TURNING:, :]
    normed = turning / (turning.square().mean(-1, keepdim=True) + heads.eps).sqrt() * heads.norm
    positions = torch.arange(cache.length, cache.length + qkv.shape[1])
    turned = rotate(normed, *rotary_angles(positions, heads.head_dim, CONFIG.rope_theta, qkv.dtype))
    q, k = turned[..., : heads.num_heads, :], turned[..., heads.num_heads :, :]
    return cache.attend(layer, q, k, v).flatten(2)


def random_rows(*shape: int) -> Tensor:
    return torch.randn(*shape, WIDTH, dtype=torch.float64)


def made(slot: int, prompt_rows: int) -> Sequence:
    return Sequence(request(str(slot)), prompt_rows, 0, 6, slot, BLOCKS[slot])


class Paged:
    """Three sequences over poisoned pages, each beside its dense cache."""

    def __init__(self, attention: str, sabotage: str = "") -> None:
        self.attention, self.sabotage = attention, sabotage
        cpu = torch.device("cpu")
        self.stack = made_stack()
        self.cache = PagedCache(CONFIG, NUM_BLOCKS, BLOCK, cpu, torch.float64)
        self.cache.kv.fill_(float("nan"))
        self.control = Control({**rows_layout(16, SLOTS - 1), "tables": ((SLOTS, 3), np.int32)}, cpu, ring=1)
        tables = self.control.host["tables"]
        tables[-1] = self.cache.scratch_block
        for slot, blocks in BLOCKS.items():
            tables[slot] = BLOCKS[0] if sabotage == "table" and slot == 2 else blocks
        self.writer = RowWriter(self.control, tables, BLOCK, Scratch(SLOTS - 1, NUM_BLOCKS * BLOCK))
        self.dense = {slot: DenseCache(CONFIG, 1, 12, self.cache.kv) for slot in BLOCKS}
        self.worst = 0.0

    def step(self, plan: StepPlan, padding: int = 0) -> None:
        """Run a plan over all layers, and note the largest difference."""
        spans = [(s.slot, 1) for s in plan.decode] + [(c.sequence.slot, c.rows) for c in plan.prefill]
        real = sum(count for _, count in spans)
        self.writer.write(plan, real + padding, len(plan.finishing))
        attend = self.attend(plan, real + padding)
        for number, layer in enumerate(self.stack.layers):
            qkv = random_rows(real + padding)
            given = qkv.clone().unflatten(1, (-1, CONFIG.head_dim))
            if self.sabotage == "alias":
                given[:, TURNING:] = given[:, CONFIG.num_heads : TURNING]
            ours, at = attend(number, given.flatten(1), layer.heads), 0
            for slot, count in spans:
                theirs = dense(self.dense[slot], number, layer.heads, qkv[None, at : at + count])[0]
                gap = float((ours[at : at + count] - theirs).abs().max())
                self.worst = max(self.worst, float("inf") if gap != gap else gap)
                at += count
        for slot, count in spans:
            self.dense[slot].advance(count)
        for chunk in plan.prefill:
            chunk.sequence.prefilled += chunk.rows
        for sequence in plan.finishing:
            sequence.launched += 1

    def attend(self, plan: StepPlan, rows: int) -> Attend:
        device = self.control.device
        slots, positions, kv_slots = (device[name][:rows] for name in ("slots", "positions", "kv_slots"))
        where = KVRows(slots, positions, kv_slots, device["tables"], BLOCK)
        if self.attention == "torch":
            return TorchAttention(self.cache, plan, where, self.stack)
        return KernelAttention(self.cache, where, query_len=1 if not plan.prefill else rows)


def run(attention: str, sabotage: str = "", padding: int = 0) -> float:
    """Three steps: prefill, prefill beside decode, decode of rows of three lengths."""
    paged = Paged(attention, sabotage)
    a, b, c = made(0, 5), made(1, 9), made(2, 3)
    paged.step(StepPlan((), (PrefillChunk(a, 0, 5, True), PrefillChunk(b, 0, 4, False))), padding)
    paged.step(StepPlan((a,), (PrefillChunk(b, 4, 5, True), PrefillChunk(c, 0, 3, True))), padding)
    paged.step(StepPlan((a, b, c), ()), padding)
    return paged.worst


@pytest.mark.parametrize(("attention", "padding"), [("torch", 0), ("kernel", 0), ("kernel", 3)])
def test_paged_equals_dense_with_the_rest_of_the_cache_poisoned(attention: str, padding: int) -> None:
    """Float64, so 1e-12 is rounding; NaN in unwritten pages shows any read beyond a sequence's own keys.

    Red if a decode row reads its padding, a chunk's mask is one off, or a row's key is written after it is read.
    """
    assert run(attention, padding=padding) < 1e-12


@pytest.mark.parametrize("attention", ["torch", "kernel"])
@pytest.mark.parametrize("sabotage", ["table", "alias"])
def test_a_shared_page_and_k_in_place_of_v_are_noticed(attention: str, sabotage: str) -> None:
    assert run(attention, sabotage) > 1e-3


def frame_gap(rows: int, repeat: int = 2) -> float:
    """The code predictor's sixteen positions, several frames one after the other in a cache with room for more rows."""
    cpu, stack = torch.device("cpu"), made_stack()
    cache = FrameCache(CONFIG, 5, 16, cpu, torch.float64)
    cache.kv.fill_(float("nan"))
    worst = 0.0
    for _ in range(repeat):
        oracle = DenseCache(CONFIG, rows, 16, cache.kv)
        for position in range(16):
            attend = cache.attend(rows, position)
            for number, layer in enumerate(stack.layers):
                qkv = random_rows(rows)
                theirs = dense(oracle, number, layer.heads, qkv[:, None])[:, 0]
                gap = float((attend(number, qkv, layer.heads) - theirs).abs().max())
                worst = max(worst, float("inf") if gap != gap else gap)
            oracle.advance(1)
    return worst


@pytest.mark.parametrize("rows", [1, 3, 5])
def test_a_frame_sees_its_own_positions_and_nothing_of_the_frame_before(rows: int) -> None:
    """Red if a position sees one more than there is: NaN in the first frame, the former frame's key in the second."""
    assert frame_gap(rows) < 1e-12


@pytest.mark.gpu
@pytest.mark.usefixtures("full_float32")
def test_the_frame_cache_is_the_same_on_a_gpu() -> None:
    """Float32 against the CPU's: 1e-4 of outputs of size 1 is rounding of sums in another order. Red if tables or
    places of the rows are one row or one position off.
    """
    stack = DecoderStack(CONFIG)
    for parameter in stack.parameters():
        torch.nn.init.normal_(parameter)
    caches = {}
    for name in ("cpu", "cuda"):
        device = torch.device(name)
        caches[name] = (PackedStack(stack.to(device), 16), FrameCache(CONFIG, 5, 16, device, torch.float32))
        caches[name][1].kv.fill_(float("nan"))
    for position in range(16):
        for layer in range(CONFIG.num_layers):
            qkv, out = torch.randn(3, WIDTH), []
            for name, (packed, cache) in caches.items():
                attend = cache.attend(3, position)
                out.append(attend(layer, qkv.to(name), packed.layers[layer].heads).cpu())
            assert (out[0] - out[1]).abs().max() < 1e-4
