"""Runs steps: on a CPU at once, on a GPU as captured graphs on two streams with the host one step behind.

    main stream    control block -> talker -> frame -> hand-off of the report
    codec stream                                        report -> PCM -> pinned memory

The codec of one step runs beside the talker of the next. `launch` never waits for the device; `collect` waits for one
step's PCM, when the next step is already on its way. At most `MAX_IN_FLIGHT` steps are: every buffer that the host and
both streams pass on to each other exists at least that often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from ttsbench.core import SpeechRequest
from ttsbench.engine.buckets import Buckets, bucket
from ttsbench.engine.control import Control
from ttsbench.engine.graphs import Graphs
from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.preemption import Suspended
from ttsbench.engine.priming import PART, Primer
from ttsbench.engine.program import StepProgram
from ttsbench.engine.rows import RowWriter, Scratch, rows_layout
from ttsbench.engine.scheduler import StepPlan
from ttsbench.engine.slot_state import SlotState, slot_layout
from ttsbench.kernels.compilations import compilations
from ttsbench.kernels.invariant import batch_invariant
from ttsbench.kernels.next_input import ENDED, LAST, SOUND
from ttsbench.kernels.pack_frame import FINITE_PCM
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.packed import PackedTalker
from ttsbench.models.qwen3_tts.prompt import Prompt

MAX_IN_FLIGHT = 2
"""Steps launched and not yet collected: the one that the host waits for, and the next one."""


@dataclass(frozen=True)
class StepOutput:
    """What the host needs of a step, one row per sequence of `StepPlan.finishing`; all arrays freshly owned."""

    codes: np.ndarray
    """int32 [R, Q]; column 0 may be the end-of-speech id."""
    ended: np.ndarray
    """bool [R]: end of speech was drawn, the row holds no frame."""
    last: np.ndarray
    """bool [R]: the frame is the last that the row's limit allows."""
    finite_logits: np.ndarray
    """bool [R]: all logits of talker and code predictor are finite."""
    finite_pcm: np.ndarray
    """bool [R]: all samples are finite."""
    pcm: np.ndarray
    """float32 [R, hop]."""

    @classmethod
    def unpack(cls, block: np.ndarray, num_codebooks: int) -> StepOutput:
        """From the rows [R, hop + Q + 1] of `StepProgram.packed_output`."""
        hop = block.shape[1] - num_codebooks - 1
        words = block.view(np.int32)[:, hop:]
        flags = words[:, num_codebooks]
        ended, last, sound, finite_pcm = ((flags & bit) != 0 for bit in (ENDED, LAST, SOUND, FINITE_PCM))
        return cls(words[:, :num_codebooks], ended, last, sound, finite_pcm, block[:, :hop])


@dataclass(frozen=True)
class Flight:
    """A step on its way."""

    plan: StepPlan
    landing: np.ndarray | None
    """Where its packed output arrives; None for a step that yields no frame."""
    done: torch.cuda.Event | None
    """None on a CPU, where it has arrived, in memory of its own."""


@dataclass(frozen=True)
class RunnerOptions:
    """Sizes of a runner."""

    max_num_seqs: int
    max_rows: int
    """Packed rows of a step."""
    max_model_len: int
    block_size: int
    num_blocks: int
    graphs: bool
    """Capture steps in CUDA graphs; nothing on a CPU."""
    batch_invariant: bool = False
    """Nothing of one sequence depends on another: its codec is primed by itself, exactly, and on a GPU no row's result
    depends on how many rows a step has. A CPU gets steps of one sequence.
    """
    context_frames: int | None = None
    """Length of reference context for which priming is captured too."""
    preempts: bool = False
    """Sequences may be preempted: there has to be room for what they keep."""


class Runner:
    """Talker, code predictor and streaming codec over one set of slots."""

    def __init__(
        self, config: Qwen3TTSConfig, packed: PackedTalker, codec: StreamingCodec, options: RunnerOptions
    ) -> None:
        """`codec` has one slot more than `max_num_seqs`: the last one is for padding rows."""
        self.config = config
        self.codec = codec
        self.device = packed.device
        self.options = options
        self.on_gpu = self.device.type == "cuda"
        self.buckets = Buckets.of(options.max_num_seqs, options.max_rows, padded=options.graphs)
        slots = options.max_num_seqs + 1
        per_slot = -(-options.max_model_len // options.block_size)
        self.max_frames = self.buckets.frames[-1]
        self.max_rows = max(options.max_rows, self.max_frames)
        layout = {**slot_layout(slots, per_slot), **rows_layout(self.max_rows, self.max_frames)}
        self.control = Control(layout, self.device, ring=MAX_IN_FLIGHT + 1)
        self.cache = PagedCache(config.talker, options.num_blocks, options.block_size, self.device, packed.dtype)
        self.control.host["tables"][-1] = self.cache.scratch_block
        self.state = SlotState(config, slots, self.control, self.device, packed.dtype)
        self.program = StepProgram(
            packed, codec, self.cache, self.control, self.state, self.max_rows, self.max_frames, self.buckets.codec[-1]
        )
        self.primer = Primer(codec, options.batch_invariant, options.context_frames if options.graphs else None)
        self.parts: dict[str, Callable[[int], None]] = {
            "decode": self.program.decode,
            "mixed": self.program.mixed,
            "frame": self.program.frame_of_mixed,
            "codec": self.program.codec,
            PART: self.primer.part,
        }
        scratch = Scratch(slots - 1, self.cache.scratch_block * options.block_size)
        self.rows = RowWriter(self.control, self.control.host["tables"], options.block_size, scratch)
        self.steps = 0
        if self.on_gpu:
            self._streams()
            self.warm_at = compilations()

    def _streams(self) -> None:
        # The talker's chain of small kernels decides the pace; the codec fills what it leaves free.
        self.main = torch.cuda.Stream(self.device, priority=-1)  # type: ignore[no-untyped-call]
        self.side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self.graphs = Graphs(self.main)
        self.codec_graphs = Graphs(self.side)
        shape, kind = self.program.packed_output.shape, self.program.packed_output.dtype
        self.landings = [torch.empty(shape, dtype=kind, pin_memory=True) for _ in range(MAX_IN_FLIGHT + 1)]
        self.hand_offs = [torch.zeros_like(self.program.codec_input) for _ in range(MAX_IN_FLIGHT)]
        torch.cuda.synchronize(self.device)  # all memory was filled on the stream of the caller

    def context(self) -> AbstractContextManager[object]:
        """Work for this runner, prompts included, is queued inside: it then stands in line with the steps."""
        return self._on(self.main) if self.on_gpu else nullcontext()

    @contextmanager
    def _on(self, stream: torch.cuda.Stream) -> Iterator[None]:
        with torch.cuda.stream(stream), batch_invariant() if self.options.batch_invariant else nullcontext():
            yield

    @torch.inference_mode()
    def warm_up(self, buckets: Buckets) -> None:
        """Compile every kernel, and capture every graph, that steps of these sizes need, in the scratch slot."""
        nothing = StepPlan((), ())
        self.rows.write(nothing, self.max_rows, self.max_frames)
        with self.context():
            self.control.send()
        self.program.codec_input[:, -1] = self.options.max_num_seqs  # the scratch slot
        torch.cuda.synchronize(self.device)
        for rows in reversed(buckets.tokens):
            self._ready("mixed", rows)
        for rows in reversed(buckets.frames):
            self._ready("frame", rows)
            self._ready("decode", rows)
        for rows in reversed(buckets.codec):
            self._ready("codec", rows)
        for rows in reversed(self.primer.buckets):
            self._ready(PART, rows)
        self.warm_at = compilations()

    def _ready(self, part: str, size: int) -> None:
        graphs = self.codec_graphs if part in ("codec", PART) else self.graphs
        work = partial(self.parts[part], size)
        with self._on(graphs.stream):
            if self.options.graphs:
                graphs.capture((part, size), work)
            else:
                work()
        graphs.stream.synchronize()

    @torch.inference_mode()
    def start(self, slot: int, blocks: list[int], request: SpeechRequest, prompt: Prompt, frame_limit: int) -> None:
        """Make a slot ready for a request. Its codec hears the reference frames of its context at the next `prime`."""
        with self.context():
            self.state.start(slot, blocks, request, frame_limit, prompt.pad)
            self.cache.write_inputs(blocks, prompt.rows, 0)
            self.cache.write_inputs(blocks, prompt.trailing[:frame_limit], len(prompt.rows))
        with self._side_of_main():
            self.codec.reset([slot])
            self.codec.position[-1].zero_()  # padding rows move the scratch slot on, and nobody else sets it back
        if prompt.context_codes is not None:
            self.primer.add(slot, prompt.context_codes)

    @torch.inference_mode()
    def prime(self) -> None:
        """Queue the reference frames of all that started since the last call; before their first step."""
        if self.primer.waiting:
            with self._side_of_main():
                self.primer.run(self.codec_graphs if self.options.graphs else None)

    @torch.inference_mode()
    def suspend(self, slot: int, blocks: list[int], input_rows: int) -> Suspended:
        """What a request in `slot` has to keep when it goes, as all steps launched so far leave it."""
        with self.context():
            inputs = self.cache.read_inputs(blocks, input_rows)
            seen, pad = self.state.seen[slot].clone(), self.state.pads[slot].clone()
        with self._side_of_main():
            return Suspended(inputs, seen, pad, self.codec.save(slot))

    @torch.inference_mode()
    def resume(self, slot: int, blocks: list[int], request: SpeechRequest, kept: Suspended, frame_limit: int) -> None:
        """Make any slot ready to go on with a request. Its keys and values are for steps to compute."""
        with self.context():
            self.state.start(slot, blocks, request, frame_limit, kept.pad)
            self.state.seen[slot].copy_(kept.seen)
            self.cache.write_inputs(blocks, kept.inputs, 0)
        with self._side_of_main():
            self.codec.restore(slot, kept.codec)

    def stats(self) -> dict[str, Any]:
        """Codecs primed. On a GPU kernels compiled after the warm-up, replays by graph `part:bucket` (eager: none)."""
        primed = {"priming": dict(self.primer.counts)}
        if not self.on_gpu:
            return primed
        replays = {**self.graphs.replays, **self.codec_graphs.replays}
        graphs = {f"{part}:{size}": count for (part, size), count in sorted(replays.items())}
        return {**primed, "compilations": compilations() - self.warm_at, "graphs": graphs}

    @torch.inference_mode()
    def launch(self, plan: StepPlan) -> Flight:
        """Queue one planned step."""
        if not self.on_gpu:
            return self._run_here(plan)
        rows, frames, spoken = self.sizes(plan, padded=self.options.graphs)
        self.rows.write(plan, rows, frames)
        with self.context():
            self.control.send()
            self._main_part(plan, rows, frames)
            landing = self._codec_part(spoken) if spoken else None
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record(self.side if frames else self.main)
        self.steps += 1
        return Flight(plan, None if landing is None else landing[: len(plan.finishing)], done)

    def sizes(self, plan: StepPlan, padded: bool) -> tuple[int, int, int]:
        """Packed rows of a step, those that yield a frame, and those of its codec; `padded`: as graphs run it."""
        frames = len(plan.finishing)
        rows = len(plan.decode) + sum(chunk.rows for chunk in plan.chunks)
        if not padded:
            return rows, frames, frames
        spoken = bucket(self.buckets.codec, frames) if frames else 0
        frames = bucket(self.buckets.frames, frames) if frames else 0
        return bucket(self.buckets.tokens, rows) if plan.prefill else frames, frames, spoken

    def collect(self, flight: Flight) -> StepOutput | None:
        """What a step gave, once it has arrived; None when it yields no frame."""
        if flight.done is not None:
            flight.done.synchronize()  # the one place where the host waits for the device
        if flight.landing is None:
            return None
        # One copy: the landing place is used again, and chunks belong to whoever receives them.
        owned = flight.landing if flight.done is None else flight.landing.copy()
        return StepOutput.unpack(owned, self.config.num_codebooks)

    def _run_here(self, plan: StepPlan) -> Flight:
        rows, frames, _ = self.sizes(plan, padded=False)
        self.rows.write(plan, rows, frames)
        program = self.program
        if plan.replay is not None:
            program.replay(rows, plan)
        elif not plan.prefill:
            program.decode(rows, plan)
        else:
            program.mixed(rows, plan)
            if frames:
                program.frame_of_mixed(frames)
        if not frames:
            return Flight(plan, None, None)
        program.codec_input[:frames] = program.frame.report[:frames]
        program.codec(frames)
        return Flight(plan, program.packed_output[:frames].numpy().copy(), None)

    def _main_part(self, plan: StepPlan, rows: int, frames: int) -> None:
        if not plan.prefill:
            self._go("decode", rows)
            return
        self._go("mixed", rows)
        if frames:
            self._go("frame", frames)

    def _codec_part(self, frames: int) -> np.ndarray:
        """Hand the report over to the codec's stream; where its output will land."""
        program = self.program
        hand_off = self.hand_offs[self.steps % len(self.hand_offs)]
        landing = self.landings[self.steps % len(self.landings)]
        hand_off[:frames].copy_(program.frame.report[:frames])
        with self._side_of_main():
            program.codec_input[:frames].copy_(hand_off[:frames])
            self._go("codec", frames)
            landing[:frames].copy_(program.packed_output[:frames], non_blocking=True)
        return landing.numpy()

    def _go(self, part: str, size: int) -> None:
        """Replay the part's graph, or run it eagerly."""
        if not self.options.graphs:
            self.parts[part](size)
        elif part == "codec":
            self.codec_graphs.replay((part, size))
        else:
            self.graphs.replay((part, size))

    def _side_of_main(self) -> AbstractContextManager[object]:
        """The codec's stream, after all that the main stream has in line."""
        if not self.on_gpu:
            return nullcontext()
        self.side.wait_stream(self.main)
        return self._on(self.side)
