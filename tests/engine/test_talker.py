"""A decode step of the talker as one launch says what its layers say one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.test_predictor import SMALL, TOLERANCE, config_for, packed_talker
from tests.engine.toys import TOY
from tests.kernels.test_decoder_pass import Emulator
from tests.models.qwen3_tts.exactness import toy
from ttsbench.engine.attention import KernelAttention
from ttsbench.engine.control import Control
from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.program import StepProgram
from ttsbench.engine.rows import rows_layout
from ttsbench.engine.slot_state import SlotState, slot_layout
from ttsbench.engine.talker import TalkerPass, talker_pass
from ttsbench.kernels.attention import KVRows
from ttsbench.kernels.decoder_pass import MAX_ROWS, DecoderPass
from ttsbench.kernels.decoder_pass.shape import Machine
from ttsbench.kernels.fused_linear import linear
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.config import TransformerConfig
from ttsbench.models.qwen3_tts.packed import PackedTalker

LARGE = TransformerConfig(2048, 6144, 3, 16, 8, 128, 1e-6, 1e6, 64)
"""Three layers of the released 28."""
BLOCK, POSITIONS = 16, 64
SOME_BLOCKS = Machine(blocks=16, shared_bytes=128 * 1024)
"""For the emulator, with room for the sums of a large vocabulary."""


def filled_cache(packed: PackedTalker, slots: int) -> PagedCache:
    """Some past for everyone, in the scratch block too."""
    noise = torch.Generator(packed.device).manual_seed(0)
    blocks = slots * POSITIONS // BLOCK
    cache = PagedCache(packed.talker.config, blocks, BLOCK, packed.device, packed.dtype)
    cache.kv.normal_(generator=noise)
    cache.inputs.normal_(generator=noise)
    return cache


def standing(cache: PagedCache, positions: list[int], padding: int) -> KVRows:
    """A row for each of `positions` in a slot of its own, then padding rows in the scratch slot."""
    per_slot, device, count = POSITIONS // BLOCK, cache.kv.device, len(positions)
    tables = torch.full((count + 1, per_slot), cache.scratch_block)
    tables[:-1] = torch.randperm(count * per_slot, generator=torch.Generator().manual_seed(1)).view(count, per_slot)
    slots = torch.tensor([*range(count), *[count] * padding])
    where = torch.tensor([*positions, *[0] * padding])
    kv_slots = tables[slots, where // BLOCK] * BLOCK + where % BLOCK
    return KVRows(slots.to(device), where.to(device), kv_slots.to(device), tables.int().to(device), BLOCK)


def compare(ours: TalkerPass, rows: KVRows) -> None:
    """Results, and what is in the cache then."""
    packed, cache = ours.packed, ours.cache
    before = cache.kv.clone()
    hidden, logits = ours.run(rows)
    written, cache.kv = cache.kv, before
    x = cache.inputs.index_select(0, rows.kv_slots)
    theirs = packed.talker.run(x, KernelAttention(cache, rows, query_len=1))
    pairs = [(hidden, theirs.finished()), (logits, linear(theirs, packed.head))]
    pairs.append((written[:, :, rows.kv_slots].flatten(3), cache.kv[:, :, rows.kv_slots].flatten(3)))
    cache.kv = written
    for one, other in pairs:
        gap = ((one.double() - other.double()).norm(dim=-1) / other.double().norm(dim=-1)).max()
        assert gap < TOLERANCE
    apart = torch.ones(written.shape[2], dtype=torch.bool)
    apart[rows.kv_slots.cpu()] = False
    assert torch.equal(written[:, :, apart], before[:, :, apart])


@torch.inference_mode()
def test_a_pass_gives_what_the_layers_give_in_the_emulator() -> None:
    """With padding rows, which all stand at one place. Red when rows are fed another place's inputs, when hidden states
    lack the final norm, or when a padding row reaches a real one.
    """
    packed = packed_talker("cpu", large=SMALL)
    cache = filled_cache(packed, 3)
    made = DecoderPass(
        packed.talker.stack, cache.kv, len(packed.head), machine=SOME_BLOCKS, compile_kernel=Emulator(seed=1)
    )
    compare(TalkerPass(packed, cache, made, MAX_ROWS), standing(cache, [0, 40, 17], padding=2))


def test_a_cpu_runs_layer_by_layer() -> None:
    """Red when a pass is asked of a machine that has none."""
    packed = packed_talker("cpu", large=SMALL)
    assert talker_pass(packed, filled_cache(packed, 1), MAX_ROWS, reserved=0) is None


@pytest.mark.gpu
@pytest.mark.parametrize("reserved", [0, 16])
@pytest.mark.parametrize("rows", [1, 8, 13])
@torch.inference_mode()
def test_a_pass_gives_what_the_layers_give_on_a_gpu(rows: int, reserved: int) -> None:
    """Red as in the emulator, at the released widths."""
    packed = packed_talker("cuda", large=LARGE)
    cache = filled_cache(packed, rows)
    ours = talker_pass(packed, cache, 40, reserved)
    assert ours is not None
    assert ours.max_rows == MAX_ROWS
    compare(ours, standing(cache, [(7 * row + 1) % POSITIONS for row in range(rows)], padding=MAX_ROWS - 13))


@pytest.mark.gpu
@pytest.mark.parametrize("what", ["float32", "short blocks"])
def test_what_a_pass_cannot_do_runs_layer_by_layer_on_a_gpu(what: str) -> None:
    """Red when weights of another precision, or pages too short for it, are handed to the kernel."""
    packed = packed_talker("cuda", torch.float32 if what == "float32" else torch.bfloat16, large=LARGE)
    cache = PagedCache(packed.talker.config, 4, 8 if what == "short blocks" else 16, packed.device, packed.dtype)
    assert talker_pass(packed, cache, MAX_ROWS, reserved=0) is None


class Steps:
    """Decode steps of `rows` sequences, each of which feeds what the one before gave."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        packed, config = packed_talker("cuda", large=LARGE), config_for("cuda", LARGE)
        self.cache = filled_cache(packed, rows)
        where = standing(self.cache, [0] * rows, padding=0)
        control = Control(
            {**slot_layout(rows + 1, POSITIONS // BLOCK), **rows_layout(rows, rows)}, packed.device, ring=5
        )
        self.control, self.tables = control, where.tables.cpu()
        control.host["tables"][:] = self.tables.numpy()
        control.host["seeds"][:rows] = range(rows)
        control.host["limits"][:] = 99
        control.host["slots"][:] = control.host["frame_slots"][:] = range(rows)
        self.state = SlotState(config, rows + 1, control, packed.device, packed.dtype)
        codec = StreamingCodec(toy(TOY, "cuda", torch.bfloat16).codec.decoder, rows + 1)
        self.program = StepProgram(packed, codec, self.cache, control, self.state, rows, rows)
        self.start = self.cache.kv.clone(), self.cache.inputs.clone()
        self.graph: torch.cuda.CUDAGraph | None = None

    def reports(self) -> list[Tensor]:
        """Of five steps from the start."""
        torch.cuda.synchronize()
        self.cache.kv.copy_(self.start[0])
        self.cache.inputs.copy_(self.start[1])
        self.state.seen.zero_()
        reports = []
        for step in range(5):
            host = self.control.host
            at = torch.tensor([(7 * row + 1) % (POSITIONS - 8) + step for row in range(self.rows)])
            host["positions"][:], host["frames"][:] = at.numpy(), step
            host["kv_slots"][:], host["next_inputs"][:] = self.places(at), self.places(at + 1)
            self.control.send()
            if self.graph is None:
                self.program.decode(self.rows)
            else:
                self.graph.replay()
            reports.append(self.program.frame.report.clone())
        return reports

    def places(self, at: Tensor) -> np.ndarray:
        return (self.tables[torch.arange(self.rows), at // BLOCK] * BLOCK + at % BLOCK).numpy()

    def capture(self) -> None:
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()  # on which it must have run once: products keep counts for each stream
        with torch.cuda.stream(stream):
            self.program.decode(self.rows)
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.program.decode(self.rows)


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 5, 8, MAX_ROWS, MAX_ROWS + 8])
@torch.inference_mode()
def test_captured_decode_steps_are_the_eager_ones(rows: int) -> None:
    """Sampled codes of several steps, byte for byte, with a pass of the talker in front of those of the code predictor.
    Red when a pass starts before the one in front of it is done, or takes from the host what changes from step to step.
    """
    steps = Steps(rows)
    made = steps.program.talker_pass
    assert made is not None
    assert made.max_rows == min(rows, MAX_ROWS)
    eager = steps.reports()
    steps.capture()
    for _ in range(2):
        assert all(torch.equal(one, other) for one, other in zip(eager, steps.reports(), strict=True))
    assert not torch.equal(eager[0], eager[1])
