"""Fused mode: one loop in which the talker owns a streaming codec and every step returns one frame of PCM per sequence.

A step is schedule -> prepare -> forward -> sample -> commit; the runner does the middle three. Requests join and
leave the running batch between steps. Whatever goes wrong with one request ends that request alone.

On a GPU the host is one step behind: it launches a step before it has seen what the one before gave. A sequence that
ended there has then been asked for one frame too many, which is dropped. Chunks that somebody waits for, the first and
the last of a request, are handed out before the next launch, so that the next request can be part of it; the others
while the device works.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from ttsbench.core import AudioChunk, EmitReason, Finish, FinishReason, RowError, SpeechRequest
from ttsbench.engine import capacity
from ttsbench.engine.blocks import BlockPool, SlotPool
from ttsbench.engine.preemption import Suspended
from ttsbench.engine.runner import MAX_IN_FLIGHT, Flight, Runner, RunnerOptions, StepOutput
from ttsbench.engine.scheduler import Scheduler, Sequence, StepPlan
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.packed import PackedTalker
from ttsbench.models.qwen3_tts.prompt import Prompt
from ttsbench.models.qwen3_tts.talker import Talker

log = logging.getLogger(__name__)

INVARIANT_PREFILL_TILE = 64
"""Prompt positions per forward pass at `batch_invariant`: a constant, so the cut never depends on load or budget."""


@dataclass(frozen=True)
class FusedOptions:
    """Capacity and determinism of one engine."""

    max_num_seqs: int = 8
    max_num_batched_tokens: int = 512
    max_model_len: int = 4096
    block_size: int = 16
    num_kv_blocks: int | None = None
    """None: enough for every slot at `max_model_len`, or on a GPU as many of those as fit."""
    reserve_blocks: bool = True
    """A request starts when all KV blocks that it may ever need are free. False: it takes them as it grows, so that
    more requests run at once, and where none are left the newest is preempted and resumed later.
    """
    chunk_frames: int | None = 1
    """Frames of an emitted chunk; None holds the whole utterance back until it ends."""
    first_frame_at_once: bool = False
    """Emit the first frame by itself, whatever `chunk_frames` says."""
    batch_invariant: bool = False
    """Nothing that a sequence computes depends on its neighbours: a GPU cuts every sum the same way for any number of
    rows, a CPU, whose libraries choose by themselves, runs every sequence alone.
    """
    enforce_eager: bool = False
    """On a GPU: launch every kernel from Python instead of replaying captured graphs."""
    gpu_memory_utilization: float = 0.9
    """Share of the device's memory that the engine may take, weights included."""
    context_frames: int | None = None
    """Reference frames that most cloned voices bring: on a GPU priming with so many is captured, others run eagerly."""
    steps_behind: int | None = None
    """Steps launched before the results of the one before are seen: 0 or 1. None: 1 on a GPU, 0 on a CPU."""


class FusedEngine:
    """Continuous batching over the talker, code predictor and streaming codec of one checkpoint.

    `make_prompt` turns a request into talker rows when a slot is free for it; a RowError it raises ends that request.
    On a GPU it is called with the engine's stream current. `look_ahead` is told of requests whose prompts will be asked
    for next, where several wait for free slots, and of each once: what they need may be made ready together.
    """

    def __init__(
        self,
        config: Qwen3TTSConfig,
        talker: Talker,
        decoder: CodecDecoder,
        sample_rate_hz: int,
        make_prompt: Callable[[SpeechRequest], Prompt],
        options: FusedOptions,
        look_ahead: Callable[[list[SpeechRequest]], None] | None = None,
    ) -> None:
        """Build, warm up and size the engine. Raises InvalidInput when the device is too small for one request."""
        self.options = options
        self.make_prompt = make_prompt
        self.look_ahead = look_ahead
        self.sample_rate_hz = sample_rate_hz
        self.codebook_size = decoder.config.codebook_size
        self.runner = _runner(config, talker, decoder, options)
        self._alone = options.batch_invariant and not self.runner.on_gpu
        self.scheduler = Scheduler(
            SlotPool(options.max_num_seqs),
            BlockPool(self.runner.options.num_blocks, options.block_size),
            options.max_num_batched_tokens,
            INVARIANT_PREFILL_TILE if self._alone else 1,
            options.reserve_blocks,
        )
        behind = options.steps_behind if options.steps_behind is not None else int(self.runner.on_gpu)
        if not 0 <= behind < MAX_IN_FLIGHT:
            raise ValueError(f"steps_behind must lie in [0, {MAX_IN_FLIGHT}), got {behind}")
        self.steps_behind = behind
        self._alive: dict[str, Sequence] = {}
        self._flights: deque[Flight] = deque()
        self._urgent: deque[AudioChunk] = deque()
        self._out: deque[AudioChunk] = deque()
        self._next_prompt: tuple[Sequence, Prompt] | None = None
        self._suspended: dict[Sequence, Suspended] = {}
        self._preemptions = 0
        self._counts = {"decode": 0, "mixed": 0, "prefill": 0, "replay": 0}

    def submit(self, request: SpeechRequest) -> None:
        """Queue a request. Raises ValueError when its id is still in use."""
        if request.id in self._alive:
            raise ValueError(f"request id {request.id!r} is still in use")
        sequence = Sequence(request)
        self._alive[request.id] = sequence
        self.scheduler.add(sequence)

    def cancel(self, request_id: str) -> bool:
        """End a request now and free all it holds; False when it had ended. Frames already emitted stay valid."""
        sequence = self._alive.get(request_id)
        if sequence is None:
            return False
        self._end(sequence, Finish(FinishReason.CANCELLED))
        return True

    def chunks(self, stopping: Callable[[], bool] = lambda: False) -> Iterator[AudioChunk]:
        """Chunks as they appear, until nothing submitted is left or, between two steps, `stopping` says so."""
        while True:
            yield from _drained(self._urgent)
            going = bool(self._alive) and not stopping()
            if going and self.steps_behind:
                self._launch()
            yield from _drained(self._urgent, self._out)
            # A listener may have cancelled or submitted meanwhile, and the last chunk may have been the last of all.
            if going and self._alive:
                if not self.steps_behind:
                    self._launch()
                self._collect()
            if not (self._urgent or self._out) and (not self._alive or stopping()):
                break
        if not self._alive:
            self._settle()

    def step(self) -> None:
        """Launch a step of the running batch and take in what has come back. Raises RuntimeError if nothing can ever
        run.
        """
        self._launch()
        self._collect()

    def stats(self) -> dict[str, Any]:
        """Steps so far by kind, preemptions, codecs primed; on a GPU also replays by graph, and kernels compiled after
        the warm-up.
        """
        return {"steps": dict(self._counts), "preemptions": self._preemptions, **self.runner.stats()}

    def _launch(self) -> None:
        """Schedule one step and send it off."""
        with self.runner.context():
            self._collect()
            plans = self._schedule()
            if not plans:
                if not self._flights and self.scheduler.waiting:
                    raise RuntimeError(
                        f"{len(self.scheduler.waiting)} requests wait for KV blocks that nobody will free"
                    )
                self._settle()
            for plan in plans:
                self._collect()
                if plan.sequences[0].ended:
                    continue  # one sequence a plan, and what has just landed was its end
                self._flights.append(self.runner.launch(plan))
                self.scheduler.advance(plan)
                self._counts[plan.kind] += 1

    def _collect(self) -> None:
        """Take in steps until only as many are under way as may be.

        A plan is made, and launched, when all that may have ended its sequences has been seen.
        """
        while len(self._flights) > self.steps_behind:
            self._land()

    def _settle(self) -> None:
        """Nobody waits for what is still under way: let it land, so that nothing is held for it."""
        while self._flights:
            self._land()

    def _land(self) -> None:
        flight = self._flights.popleft()
        output = self.runner.collect(flight)
        if output is not None:
            self._commit(flight.plan, output)

    def _schedule(self) -> list[StepPlan]:
        """Admit what fits, then plan; at `batch_invariant` on a CPU one plan per sequence, prefill tile, and row of a
        frame that is computed again: alone, as it was the first time.
        """
        self._announce()
        while (sequence := self.scheduler.candidate()) is not None:
            if not self._admit(sequence):
                break
        self.runner.prime()
        if not self.options.reserve_blocks:
            self._make_room()
        plan = self.scheduler.plan()
        if not self._alone:
            return [plan] if plan.decode or plan.prefill else []
        alone = [StepPlan((s,), ()) for s in plan.decode]
        for chunk in plan.prefill:
            if chunk.start < chunk.sequence.prompt_rows:
                alone += [StepPlan((), (tile,)) for tile in chunk.tiles(INVARIANT_PREFILL_TILE)]
            else:
                alone += [StepPlan((), (), row) for row in chunk.tiles(1)]
        return alone

    def _make_room(self) -> None:
        """Give every running sequence the blocks of its next step, oldest first; for those the newest make way."""
        for sequence in tuple(self.scheduler.running):
            while sequence.slot >= 0:
                taken = self.scheduler.grow(sequence)
                if taken is None:
                    self._preempt(self.scheduler.running[-1])
                    continue
                if taken:
                    self.runner.state.put_blocks(sequence.slot, sequence.blocks)
                break

    def _preempt(self, sequence: Sequence) -> None:
        """Take slot and blocks from a running sequence; what is under way for it still counts."""
        try:
            kept = self.runner.suspend(sequence.slot, sequence.blocks, sequence.input_rows)
        except Exception as error:
            self._fail(sequence, "could not be preempted", error)
            return
        self.scheduler.preempt(sequence)
        self._suspended[sequence] = kept
        self._preemptions += 1

    def _announce(self) -> None:
        """Say which requests are about to start, if there are several."""
        if self.look_ahead is None:
            return
        new = [s for s in islice(self.scheduler.waiting, self.scheduler.slots.free) if not s.announced]
        for sequence in new:
            sequence.announced = True
        if len(new) < 2:
            return
        try:
            self.look_ahead([sequence.request for sequence in new])
        except Exception:
            # Nothing is lost but time: each will be made ready by itself, and whichever fails will fail alone.
            log.exception("%d requests could not be made ready together", len(new))

    def _admit(self, sequence: Sequence) -> bool:
        """Start or resume the candidate, or end it alone if it cannot run. False when it must wait for KV blocks."""
        try:
            if sequence in self._suspended:
                return self._resume(sequence)
            prompt = self._prompt_of(sequence)
            frame_limit = self._frame_limit(sequence.request, len(prompt.rows))
            if not self.scheduler.admit(sequence, len(prompt.rows), frame_limit, len(prompt.trailing)):
                return False
            self._next_prompt = None
            self.runner.start(sequence.slot, sequence.blocks, sequence.request, prompt, frame_limit)
        except RowError as error:
            self._end(sequence, Finish(FinishReason.FAILED, error.code, str(error)))
        except Exception as error:
            self._fail(sequence, "could not be started", error)
        return True

    def _resume(self, sequence: Sequence) -> bool:
        """Let a preempted sequence go on in any slot. False when it must wait for KV blocks."""
        if not self.scheduler.admit(sequence, sequence.prompt_rows, sequence.frame_limit, sequence.text_rows):
            return False
        kept = self._suspended.pop(sequence)
        self.runner.resume(sequence.slot, sequence.blocks, sequence.request, kept, sequence.frame_limit)
        return True

    def _fail(self, sequence: Sequence, what: str, error: Exception) -> None:
        """An error of ours ends the request that met it, and no other."""
        log.error("request %s %s", sequence.request.id, what, exc_info=error)
        self._end(sequence, Finish(FinishReason.FAILED, "internal", f"{type(error).__name__}: {error}"))

    def _prompt_of(self, sequence: Sequence) -> Prompt:
        """The candidate's prompt, made once even if it then has to wait for blocks."""
        if self._next_prompt is None or self._next_prompt[0] is not sequence:
            self._next_prompt = (sequence, self.make_prompt(sequence.request))
        return self._next_prompt[1]

    def _frame_limit(self, request: SpeechRequest, prompt_rows: int) -> int:
        """Frames this request may have: its own limit, or what the model length leaves after the prompt."""
        room = min(self.options.max_model_len, self.scheduler.blocks.num_blocks * self.options.block_size) - prompt_rows
        if room < 1:
            places = room + prompt_rows
            raise RowError("prompt_too_long", f"{prompt_rows} prompt rows leave no frame of {places} KV positions")
        return min(request.max_frames, room)

    def _commit(self, plan: StepPlan, output: StepOutput) -> None:
        """Move the host's bookkeeping on and queue this step's chunks."""
        now = time.monotonic_ns()
        for row, sequence in enumerate(plan.finishing):
            if sequence.ended:
                continue  # it ended, or was cancelled, when this step was already under way
            if fault := self._fault(output, row):
                self._end(sequence, Finish(FinishReason.FAILED, fault[0], f"{fault[1]} in frame {sequence.frames}"))
            elif output.ended[row]:
                self._end(sequence, Finish(FinishReason.STOP))
            else:
                self._emit(sequence, output.pcm[row], bool(output.last[row]), now)

    def _fault(self, output: StepOutput, row: int) -> tuple[str, str] | None:
        """Code and words for a row that holds no sound frame. PCM counts only where there is a frame."""
        if not output.finite_logits[row]:
            return "non_finite", "logits of talker or code predictor are not finite"
        if output.ended[row]:
            return None
        if output.codes[row, 0] >= self.codebook_size:
            return "invalid_code", f"code {output.codes[row, 0]} is not in the codec's codebook"
        return None if output.finite_pcm[row] else ("non_finite", "PCM of the codec is not finite")

    def _emit(self, sequence: Sequence, pcm: np.ndarray, last: bool, now: int) -> None:
        """Take one frame in, and queue a chunk when one is full or the request ends here."""
        sequence.frames += 1
        full = len(sequence.held) + 1 == self._chunk_target(sequence)
        # A frame that stays is copied: as a view it would keep the whole batch's PCM of its step alive.
        sequence.held.append(pcm if last or full else pcm.copy())
        if last:
            self._end(sequence, Finish(FinishReason.LENGTH))
        elif full:
            self._queue(sequence, now, None)

    def _chunk_target(self, sequence: Sequence) -> int | None:
        """Frames of the chunk being filled. It decides when to emit; what is emitted is always everything held."""
        return 1 if self.options.first_frame_at_once and sequence.chunks == 0 else self.options.chunk_frames

    def _end(self, sequence: Sequence, finish: Finish) -> None:
        """Queue the one final chunk with all frames still held, and free everything the sequence has."""
        if self._next_prompt is not None and self._next_prompt[0] is sequence:
            self._next_prompt = None
        self._suspended.pop(sequence, None)
        limit = sequence.frame_limit if sequence.prompt_rows else None  # known once the prompt is
        counted = replace(finish, frames_generated=sequence.frames, frame_limit=limit)
        self._queue(sequence, time.monotonic_ns(), counted)
        self.scheduler.drop(sequence)
        del self._alive[sequence.request.id]

    def _queue(self, sequence: Sequence, now: int, finish: Finish | None) -> None:
        held, sequence.held = sequence.held, []
        pcm = held[0] if len(held) == 1 else np.concatenate(held) if held else np.zeros(0, dtype=np.float32)
        span = (sequence.frames - len(held), sequence.frames)
        queue = self._urgent if self._waited_for(sequence, finish) else self._out
        queue.append(
            AudioChunk(
                sequence.request.id,
                sequence.chunks,
                span,
                pcm,
                self.sample_rate_hz,
                now,
                finish,
                context_frames=0,  # the streaming codec keeps its state: no frame is decoded twice
                chunk_target=self._chunk_target(sequence),
                reason=self._reason(sequence, finish),
            )
        )
        sequence.chunks += 1

    def _waited_for(self, sequence: Sequence, finish: Finish | None) -> bool:
        """Whether a chunk comes before the next launch: the first and the last of a request, if none of its own waits
        before it.
        """
        if not self.steps_behind or (finish is None and sequence.chunks > 0):
            return False
        return all(chunk.request_id != sequence.request.id for chunk in self._out)

    def _reason(self, sequence: Sequence, finish: Finish | None) -> EmitReason:
        if finish is not None:
            return EmitReason.CANCEL if finish.reason is FinishReason.CANCELLED else EmitReason.FLUSH
        first = self.options.first_frame_at_once and sequence.chunks == 0
        return EmitReason.FIRST if first else EmitReason.THRESHOLD


def _drained(*queues: deque[AudioChunk]) -> Iterator[AudioChunk]:
    """Until all are empty, always the first one first: only there is a chunk that another of its request may follow."""
    while queue := next(filter(None, queues), None):
        yield queue.popleft()


def _runner(config: Qwen3TTSConfig, talker: Talker, decoder: CodecDecoder, options: FusedOptions) -> Runner:
    """A warm runner with as large a cache as wanted, or as fits."""
    packed = PackedTalker(talker, options.max_model_len)
    codec = StreamingCodec(decoder, options.max_num_seqs + 1)
    per_slot = -(-options.max_model_len // options.block_size)
    wanted = options.max_num_seqs * per_slot if options.num_kv_blocks is None else options.num_kv_blocks
    sizes = RunnerOptions(
        max_num_seqs=options.max_num_seqs,
        max_rows=options.max_num_batched_tokens,
        max_model_len=options.max_model_len,
        block_size=options.block_size,
        num_blocks=wanted,
        graphs=packed.device.type == "cuda" and not options.enforce_eager,
        batch_invariant=options.batch_invariant,
        context_frames=options.context_frames,
        preempts=not options.reserve_blocks,
    )
    if packed.device.type == "cuda":
        least = per_slot if options.num_kv_blocks is None else wanted
        sizes = capacity.fitted(config, packed, codec, sizes, options.gpu_memory_utilization, least)
    runner = Runner(config, packed, codec, sizes)
    if runner.on_gpu:
        runner.warm_up(runner.buckets)
    log.info("capacity: %s", capacity.describe_runner(runner))
    return runner
