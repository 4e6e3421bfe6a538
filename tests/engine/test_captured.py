"""Captured frames and decode steps are the eager ones, at the released widths and from one row to many."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.engine.toys import TOY
from tests.models.qwen3_tts.exactness import toy
from ttsbench.engine.control import Control
from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.program import StepProgram
from ttsbench.engine.rows import rows_layout
from ttsbench.engine.slot_state import SlotState, slot_layout
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.config import TransformerConfig
from ttsbench.models.qwen3_tts.packed import PackedTalker
from ttsbench.models.qwen3_tts.talker import Talker

CONFIG = replace(
    toy(TOY).config,
    talker=TransformerConfig(2048, 6144, 3, 16, 8, 128, 1e-6, 1e6, 64),
    predictor=TransformerConfig(1024, 3072, 5, 16, 8, 128, 1e-6, 1e6, 64),
    codebook_size=2048,
)
"""The released code predictor, and three layers of the released talker's 28."""
BLOCK, POSITIONS = 16, 64


@cache
def packed_talker() -> PackedTalker:
    """On a GPU, with random weights that keep the size of what they multiply."""
    torch.manual_seed(0)
    talker = Talker(CONFIG).to("cuda", torch.bfloat16)
    for parameter in talker.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        assert parameter.isfinite().all()
    return PackedTalker(talker, POSITIONS)


class Steps:
    """Decode steps of `rows` sequences that all have some past, each of which feeds what the one before gave; or only
    their frames, from hidden states that stay.
    """

    def __init__(self, rows: int, frames_alone: bool) -> None:
        self.rows = rows
        packed = packed_talker()
        noise = torch.Generator(packed.device).manual_seed(0)
        per_slot = POSITIONS // BLOCK
        self.cache = PagedCache(CONFIG.talker, rows * per_slot, BLOCK, packed.device, packed.dtype)
        self.cache.kv.normal_(generator=noise)
        self.cache.inputs.normal_(generator=noise)
        self.start = self.cache.kv.clone(), self.cache.inputs.clone()
        self.tables = torch.randperm(rows * per_slot, generator=torch.Generator().manual_seed(1)).view(rows, per_slot)
        control = Control({**slot_layout(rows + 1, per_slot), **rows_layout(rows, rows)}, packed.device, ring=5)
        self.control = control
        control.host["tables"][:-1], control.host["tables"][-1] = self.tables.numpy(), self.cache.scratch_block
        control.host["seeds"][:rows] = range(rows)
        control.host["limits"][:] = 99
        control.host["slots"][:] = control.host["frame_slots"][:] = range(rows)
        self.state = SlotState(CONFIG, rows + 1, control, packed.device, packed.dtype)
        codec = StreamingCodec(toy(TOY, "cuda", torch.bfloat16).codec.decoder, rows + 1)
        self.program = StepProgram(packed, codec, self.cache, control, self.state, rows, rows, rows)
        shape = rows, CONFIG.talker.hidden_size
        self.hidden = torch.randn(shape, generator=noise, device=packed.device).to(packed.dtype)
        self.frames_alone = frames_alone
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
                self.step()
            else:
                self.graph.replay()
            reports.append(self.program.frame.report.clone())
        return reports

    def places(self, at: Tensor) -> np.ndarray:
        return (self.tables[torch.arange(self.rows), at // BLOCK] * BLOCK + at % BLOCK).numpy()

    def step(self) -> None:
        if self.frames_alone:
            self.program.frame.run(self.hidden)
        else:
            self.program.decode(self.rows)

    def capture(self) -> None:
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()  # on which it must have run once: products keep counts for each stream
        with torch.cuda.stream(stream):
            self.step()
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.step()


def check(rows: int, frames_alone: bool) -> None:
    steps = Steps(rows, frames_alone)
    eager = steps.reports()
    steps.capture()
    for _ in range(2):
        assert all(torch.equal(one, other) for one, other in zip(eager, steps.reports(), strict=True))
    assert not torch.equal(eager[0], eager[1])


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 5, 8, 16, 40, 64, 128])
@torch.inference_mode()
def test_captured_frames_are_the_eager_ones(rows: int) -> None:
    """Sampled codes of several frames, byte for byte. Red when a launch of the frame starts before what it reads is
    there, differs from run to run, or takes from the host what changes from frame to frame.
    """
    check(rows, frames_alone=True)


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 5, 8, 16, 40, 64, 128])
@torch.inference_mode()
def test_captured_decode_steps_are_the_eager_ones(rows: int) -> None:
    """The talker in front, over several layers. Red as above, or when a kernel reads keys before the layer or the step
    that writes them has ended.
    """
    check(rows, frames_alone=False)
