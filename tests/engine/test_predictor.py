"""The code predictor as one launch a position says what it says operation by operation, in whole frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from tests.engine.toys import TOY
from tests.kernels.test_decoder_pass import FEW_BLOCKS, Emulator
from tests.models.qwen3_tts.exactness import toy
from ttsbench.engine.attention import FrameCache
from ttsbench.engine.control import Control
from ttsbench.engine.frame import FrameStep
from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.predictor import LayeredPredictor, PassPredictor, Predictor, predictors
from ttsbench.engine.rows import rows_layout
from ttsbench.engine.slot_state import SlotState, slot_layout
from ttsbench.kernels.decoder_pass import MAX_ROWS, DecoderPass
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig, TransformerConfig
from ttsbench.models.qwen3_tts.packed import PackedTalker
from ttsbench.models.qwen3_tts.talker import Talker

TOLERANCE = 0.02
"""Between two computations in bfloat16, of which each is off by up to 0.012: see tests/kernels/test_decoder_pass.py."""

SMALL = TransformerConfig(256, 256, 2, 4, 2, 128, 1e-6, 1e6, 64)
"""What the emulator's few blocks can run."""
LARGE = TransformerConfig(1024, 3072, 5, 16, 8, 128, 1e-6, 1e6, 64)
"""The released one."""


@cache
def packed_talker(
    device: str, dtype: torch.dtype = torch.bfloat16, large: TransformerConfig | None = None
) -> PackedTalker:
    """A toy talker, or a `large` one, whose predictor is large enough, with random weights that keep the size of what
    they multiply.
    """
    torch.manual_seed(0)
    config = config_for(device, large)
    talker = Talker(config).to(device, dtype)
    for parameter in talker.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        assert parameter.isfinite().all()
    return PackedTalker(talker, 64)


def config_for(device: str, large: TransformerConfig | None = None) -> Qwen3TTSConfig:
    predictor, codes = (SMALL, 256) if device == "cpu" else (LARGE, 2048)
    config = toy(TOY).config
    return replace(config, predictor=predictor, codebook_size=codes, talker=large or config.talker)


def frame_cache(packed: PackedTalker, rows: int) -> FrameCache:
    """Nothing in it may be read before it is written."""
    made = FrameCache(packed.predictor.config, rows, packed.num_codebooks, packed.device, packed.dtype)
    made.kv.fill_(float("nan"))
    return made


def logits_of(predictor: Predictor, inputs: Tensor, weight: Tensor) -> list[Tensor]:
    """One frame's, from the input rows [positions, R, D], whose first norm has this `weight`.

    Each is checked to be there before the next is asked for.
    """
    pairs = predictor.inputs(inputs.shape[1])
    pairs[:, 0], pairs[:, 1] = inputs[0], inputs[1]
    out = [predictor.first(pairs).clone()]
    normed = predictor.normed(inputs.shape[1])
    for book, x in enumerate(inputs[2:], start=2):
        if normed is not None and normed.squares is not None:
            normed.rows.copy_(x.float() * weight.float())
            normed.squares[0] = x.float().square().sum(1)
        out.append(predictor.next(book, x, normed).clone())
    return out


def compare(passes: PassPredictor, layered: LayeredPredictor, positions: int, rows: int) -> None:
    """Two frames, so that the second one finds the keys of the first."""
    packed = passes.packed
    shape = positions, rows, packed.predictor.config.hidden_size
    for _ in range(2):
        inputs = torch.randn(shape).to(packed.device, packed.dtype)
        ours, theirs = (logits_of(one, inputs, packed.predictor.layers[0].input_norm) for one in (passes, layered))
        assert len(ours) == len(theirs) == positions - 1
        for book, (one, other) in enumerate(zip(ours, theirs, strict=True), start=1):
            gap = ((one.double() - other.double()).norm(dim=1) / other.double().norm(dim=1)).max()
            assert gap < TOLERANCE, f"codebook {book}: {gap:.4f}"


@torch.inference_mode()
def test_a_pass_a_position_gives_the_same_logits_in_the_emulator() -> None:
    """Red when a position is the next one's, a head another codebook's, or position 0 leaves no keys behind."""
    packed, rows = packed_talker("cpu"), 3
    cache = frame_cache(packed, 5)
    emulator = Emulator(seed=1)
    made = DecoderPass(
        packed.predictor.stack,
        cache.kv.flatten(2, 3),
        packed.codebook_size,
        machine=FEW_BLOCKS,
        compile_kernel=emulator,
    )
    layered = LayeredPredictor(packed, frame_cache(packed, 5), 5)
    compare(PassPredictor(packed, cache, made, 5), layered, positions=4, rows=rows)


def test_a_cpu_runs_layer_by_layer() -> None:
    """Red when a pass is asked of a machine that has none."""
    packed = packed_talker("cpu")
    (only,) = predictors(packed, frame_cache(packed, 40), 40)
    assert isinstance(only, LayeredPredictor)
    assert only.max_rows == 40


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 8, 13, MAX_ROWS])
@torch.inference_mode()
def test_a_pass_a_position_gives_the_same_logits_on_a_gpu(rows: int) -> None:
    packed = packed_talker("cuda")
    passes, layered = predictors(packed, frame_cache(packed, 40), 40)
    assert isinstance(passes, PassPredictor)
    assert isinstance(layered, LayeredPredictor)
    assert (passes.max_rows, layered.max_rows) == (MAX_ROWS, 40)
    layered.cache = frame_cache(packed, 40)
    compare(passes, layered, positions=16, rows=rows)


@pytest.mark.gpu
def test_float32_runs_layer_by_layer_on_a_gpu() -> None:
    """Red when a model in another precision is handed to a kernel that takes its weights for bfloat16."""
    packed = packed_talker("cuda", torch.float32)
    (only,) = predictors(packed, frame_cache(packed, 4), 4)
    assert isinstance(only, LayeredPredictor)


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 5, MAX_ROWS, MAX_ROWS + 8])
@torch.inference_mode()
def test_a_captured_frame_is_the_eager_one(rows: int) -> None:
    """Sampled codes of several frames, byte for byte. Red when a launch of the frame starts before what it reads is
    there, differs from run to run, or takes from the host what changes from frame to frame.
    """
    packed, config = packed_talker("cuda"), config_for("cuda")
    control = Control({**slot_layout(rows, 8), **rows_layout(rows, rows)}, packed.device, ring=3)
    control.host["seeds"][:] = range(rows)
    control.host["limits"][:] = 99
    control.host["frame_slots"][:] = range(rows)
    state = SlotState(config, rows, control, packed.device, packed.dtype)
    cache = PagedCache(config.talker, rows, 8, packed.device, packed.dtype)
    step = FrameStep(packed, state, cache, rows)
    assert isinstance(step.predictor(rows), PassPredictor) == (rows <= MAX_ROWS)
    hidden = torch.randn(rows, config.talker.hidden_size).to(packed.device, packed.dtype)

    def frames(run: Callable[[], None]) -> list[Tensor]:
        state.seen.zero_()
        reports = []
        for number in range(3):
            control.host["frames"][:] = number
            control.send()
            run()
            reports.append(step.report.clone())
        return reports

    eager = frames(lambda: step.run(hidden))
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()  # on which it must have run once: products keep counts for each stream
    with torch.cuda.stream(stream):
        step.run(hidden)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step.run(hidden)
    assert all(torch.equal(one, other) for one, other in zip(eager, frames(graph.replay), strict=True))
    assert not torch.equal(eager[0], eager[1])
