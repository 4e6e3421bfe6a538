"""Steps padded to their bucket, as captured graphs run them, here on a CPU through the kernels' references."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.engine.toys import ToyEngine, request, requests
from ttsbench.core import SamplingParams
from ttsbench.engine import fused
from ttsbench.engine.buckets import bucket
from ttsbench.engine.rows import Scratch
from ttsbench.engine.runner import Flight, Runner
from ttsbench.engine.scheduler import StepPlan
from ttsbench.models.qwen3_tts.codec_frame import FrameCodec

LASTING = SamplingParams(min_frames=99)
ASKED = [replace(one, max_frames=5 + i) for i, one in enumerate(requests(7, sampling=LASTING))]


class PaddedRunner(Runner):
    """Runs a step the way a GPU does: sizes of buckets, no plan at hand, and the codec of captured frames."""

    def _run_here(self, plan: StepPlan) -> Flight:
        program = self.program
        if program._frame_codec is None:
            program._frame_codec = FrameCodec(self.codec)
        frames = len(plan.finishing)
        rows = len(plan.decode) + sum(chunk.rows for chunk in plan.prefill)
        frames = bucket(self.row_buckets, frames) if frames else 0
        rows = bucket(self.token_buckets, rows) if plan.prefill else frames
        self.rows.write(plan, rows, frames)
        if not plan.prefill:
            program.decode(rows)
        else:
            program.mixed(rows)
            if frames:
                program.frame_of_mixed(frames)
        if not frames:
            return Flight(plan, None, None)
        program.codec_input[:frames] = program.frame.report[:frames]
        program.codec(frames)
        return Flight(plan, program.packed_output[: len(plan.finishing)].numpy().copy(), None)


def gap(scratch: Scratch | None, monkeypatch: pytest.MonkeyPatch, block_size: int = 8) -> float:
    """Largest difference of anybody's PCM to that of steps without padding; infinite when codes differ."""
    options: dict[str, Any] = {
        "max_num_seqs": 5,
        "max_num_batched_tokens": 48,
        "steps_behind": 1,
        "block_size": block_size,
    }
    plain = ToyEngine(**options).speak(ASKED)
    monkeypatch.setattr(fused, "Runner", PaddedRunner)
    engine = ToyEngine(**options)
    if scratch is not None:
        engine.runner.rows.scratch = scratch
    padded = engine.speak(ASKED)
    engine.assert_empty()
    if any(not np.array_equal(plain[one.id].codes, padded[one.id].codes) for one in ASKED):
        return float("inf")
    return max(float(np.abs(plain[one.id].pcm - padded[one.id].pcm).max()) for one in ASKED)


@pytest.mark.parametrize("block_size", [1, 8])
def test_padding_rows_reach_no_real_row(block_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven requests over five slots, three to five of them at once: codes equal, PCM to 1e-4 of full scale. Red if
    padding writes where an earlier step left its rows (try leaving `array[len(values) : rows]` as it is), or beyond the
    cache where a block holds one position.
    """
    assert gap(None, monkeypatch, block_size) < 1e-4


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
