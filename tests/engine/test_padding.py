"""Steps padded to their bucket, as captured graphs run them, here on a CPU through the kernels' references."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.engine.toys import ToyEngine, request, requests
from ttsbench.core import SamplingParams
from ttsbench.engine import fused
from ttsbench.engine.rows import Scratch
from ttsbench.engine.runner import Flight, Runner, RunnerOptions
from ttsbench.engine.scheduler import StepPlan
from ttsbench.models.qwen3_tts.codec_frame import FrameCodec
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.packed import PackedTalker

LASTING = SamplingParams(min_frames=99)


class PaddedRunner(Runner):
    """Runs a step the way a GPU does: sizes of buckets, no plan at hand, and the codec of captured frames."""

    def __init__(
        self, config: Qwen3TTSConfig, packed: PackedTalker, codec: StreamingCodec, options: RunnerOptions
    ) -> None:
        super().__init__(config, packed, codec, replace(options, graphs=True))

    def _run_here(self, plan: StepPlan) -> Flight:
        program = self.program
        if program._frame_codec is None:
            program._frame_codec = FrameCodec(self.codec)
        rows, frames, spoken = self.sizes(plan, padded=True)
        self.rows.write(plan, rows, frames)
        if not plan.prefill:
            program.decode(rows)
        else:
            program.mixed(rows)
            if frames:
                program.frame_of_mixed(frames)
        if not frames:
            return Flight(plan, None, None)
        program.codec_input[:spoken] = program.frame.report[:spoken]
        program.codec(spoken)
        return Flight(plan, program.packed_output[: len(plan.finishing)].numpy().copy(), None)


def gap(scratch: Scratch | None, monkeypatch: pytest.MonkeyPatch, block_size: int = 8, slots: int = 5) -> float:
    """Largest difference of anybody's PCM to that of steps without padding; infinite when codes differ. There are two
    more requests than slots.
    """
    asked = [replace(one, max_frames=5 + i % 7) for i, one in enumerate(requests(slots + 2, sampling=LASTING))]
    options: dict[str, Any] = {
        "max_num_seqs": slots,
        "max_num_batched_tokens": 48,
        "steps_behind": 1,
        "block_size": block_size,
    }
    plain = ToyEngine(**options).speak(asked)
    monkeypatch.setattr(fused, "Runner", PaddedRunner)
    engine = ToyEngine(**options)
    if scratch is not None:
        engine.runner.rows.scratch = scratch
    padded = engine.speak(asked)
    engine.assert_empty()
    if any(not np.array_equal(plain[one.id].codes, padded[one.id].codes) for one in asked):
        return float("inf")
    return max(float(np.abs(plain[one.id].pcm - padded[one.id].pcm).max()) for one in asked)


@pytest.mark.parametrize("block_size", [1, 8])
@pytest.mark.parametrize("slots", [5, 18])
def test_padding_rows_reach_no_real_row(block_size: int, slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes equal, PCM to 1e-4 of full scale; 18 slots run in whole tiles, of more rows than there are slots. Red if
    padding writes where an earlier step left its rows (try leaving `array[len(values) : rows]` as it is), or beyond the
    cache where a block holds one position.
    """
    assert gap(None, monkeypatch, block_size, slots) < 1e-4


@pytest.mark.parametrize("leak", [Scratch(slot=0, kv_slot=8 * 160), Scratch(slot=5, kv_slot=10)], ids=["slot", "place"])
def test_padding_that_stands_on_a_real_slot_or_place_is_noticed(leak: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above can fail. Blocks are given out from 0, so place 10 is the second frame's of somebody."""
    assert gap(leak, monkeypatch) > 1e-3


def test_the_scratch_slots_codec_position_is_set_back() -> None:
    """Padding rows move it on with every step; for ever, it would leave the 32 bits in which the ring's kernel counts.
    Red when a new request does not set it back (`Runner.start`).
    """
    engine = ToyEngine()
    engine.runner.codec.position[-1] = 2**31
    engine.speak([request("a", max_frames=2)])
    assert engine.runner.codec.position[-1] == 0
