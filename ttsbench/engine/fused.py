"""Fused mode: one loop in which the talker owns a streaming codec and every step returns one frame of PCM per sequence.

A step is schedule -> prepare -> forward -> sample -> commit; the runner does the middle three. Requests join and
leave the running batch between steps. Whatever goes wrong with one request ends that request alone.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ttsbench.core import AudioChunk, EmitReason, Finish, FinishReason, RowError, SpeechRequest
from ttsbench.engine.blocks import BlockPool, SlotPool
from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.runner import Runner, StepOutput
from ttsbench.engine.scheduler import Scheduler, Sequence, StepPlan
from ttsbench.engine.slot_state import SlotState
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
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
    """None: enough for every slot at `max_model_len`."""
    chunk_frames: int | None = 1
    """Frames of an emitted chunk; None holds the whole utterance back until it ends."""
    first_frame_at_once: bool = False
    """Emit the first frame by itself, whatever `chunk_frames` says."""
    batch_invariant: bool = False
    """Run every sequence alone, so that nothing it computes depends on its neighbours."""


class FusedEngine:
    """Continuous batching over the talker, code predictor and streaming codec of one checkpoint.

    `make_prompt` turns a request into talker rows when a slot is free for it; a RowError it raises ends that request.
    """

    def __init__(
        self,
        config: Qwen3TTSConfig,
        talker: Talker,
        codec: StreamingCodec,
        sample_rate_hz: int,
        make_prompt: Callable[[SpeechRequest], Prompt],
        options: FusedOptions,
    ) -> None:
        weight = talker.codec_head.weight
        per_slot = -(-options.max_model_len // options.block_size)
        num_blocks = options.max_num_seqs * per_slot if options.num_kv_blocks is None else options.num_kv_blocks
        self.options = options
        self.make_prompt = make_prompt
        self.sample_rate_hz = sample_rate_hz
        self.scheduler = Scheduler(
            SlotPool(options.max_num_seqs),
            BlockPool(num_blocks, options.block_size),
            options.max_num_batched_tokens,
            INVARIANT_PREFILL_TILE if options.batch_invariant else 1,
        )
        cache = PagedCache(
            config.talker, num_blocks, options.block_size, options.max_num_seqs, per_slot, weight.device, weight.dtype
        )
        state = SlotState(config, options.max_num_seqs, weight.device, weight.dtype)
        self.runner = Runner(config, talker, codec, cache, state)
        self._alive: dict[str, Sequence] = {}
        self._out: deque[AudioChunk] = deque()
        self._next_prompt: tuple[Sequence, Prompt] | None = None
        log.info(
            "capacity: %d slots (codec state %.0f MB), %d KV blocks of %d positions (%.0f MB)",
            options.max_num_seqs,
            options.max_num_seqs * codec.bytes_per_slot / 1e6,
            num_blocks,
            options.block_size,
            num_blocks * options.block_size * PagedCache.bytes_per_position(config.talker, weight.dtype) / 1e6,
        )

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
        while self._out or (self._alive and not stopping()):
            while self._out:
                yield self._out.popleft()
            if self._alive and not stopping():
                self.step()

    def step(self) -> None:
        """One step of the running batch; its chunks are queued. Raises RuntimeError if nothing can ever run."""
        plans = self._schedule()
        if not plans and self.scheduler.waiting:
            raise RuntimeError(f"{len(self.scheduler.waiting)} requests wait for KV blocks that nobody will free")
        for plan in plans:
            self._commit(plan, self.runner.step(plan))

    def _schedule(self) -> list[StepPlan]:
        """Admit what fits, then plan; at `batch_invariant` one plan per sequence and prefill tile."""
        while (sequence := self.scheduler.candidate()) is not None:
            if not self._admit(sequence):
                break
        plan = self.scheduler.plan()
        if not self.options.batch_invariant:
            return [plan] if plan.decode or plan.prefill else []
        alone = [StepPlan((s,), ()) for s in plan.decode]
        return alone + [StepPlan((), (tile,)) for chunk in plan.prefill for tile in chunk.tiles(INVARIANT_PREFILL_TILE)]

    def _admit(self, sequence: Sequence) -> bool:
        """Start the candidate, or end it alone if it cannot run. False when it must wait for KV blocks."""
        try:
            prompt = self._prompt_of(sequence)
            frame_limit = self._frame_limit(sequence.request, len(prompt.rows))
            if not self.scheduler.admit(sequence, len(prompt.rows), frame_limit):
                return False
            self._next_prompt = None
            self.runner.start(sequence.slot, sequence.blocks, sequence.request, prompt)
        except RowError as error:
            self._end(sequence, Finish(FinishReason.FAILED, error.code, str(error)))
        except Exception as error:
            log.exception("request %s could not be started", sequence.request.id)
            self._end(sequence, Finish(FinishReason.FAILED, "internal", f"{type(error).__name__}: {error}"))
        return True

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
        for chunk in plan.prefill:
            chunk.sequence.prefilled += chunk.rows
        for row, sequence in enumerate(plan.finishing):
            if fault := self._fault(output, row):
                self._end(sequence, Finish(FinishReason.FAILED, fault[0], f"{fault[1]} in frame {sequence.frames}"))
            elif output.ended[row]:
                self._end(sequence, Finish(FinishReason.STOP))
            else:
                self._emit(sequence, output.pcm[row], now)

    def _fault(self, output: StepOutput, row: int) -> tuple[str, str] | None:
        """Code and words for a row that holds no sound frame. PCM counts only where there is a frame."""
        if not output.finite_logits[row]:
            return "non_finite", "logits of talker or code predictor are not finite"
        if output.ended[row]:
            return None
        if output.codes[row, 0] >= self.runner.codebook_size:
            return "invalid_code", f"code {output.codes[row, 0]} is not in the codec's codebook"
        return None if output.finite_pcm[row] else ("non_finite", "PCM of the codec is not finite")

    def _emit(self, sequence: Sequence, pcm: np.ndarray, now: int) -> None:
        """Take one frame in, and queue a chunk when one is full or the request ends here."""
        sequence.frames += 1
        at_limit = sequence.frames == sequence.frame_limit
        full = len(sequence.held) + 1 == self._chunk_target(sequence)
        # A frame that stays is copied: as a view it would keep the whole batch's PCM of its step alive.
        sequence.held.append(pcm if at_limit or full else pcm.copy())
        if at_limit:
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
        limit = sequence.frame_limit if sequence.slot >= 0 else None  # known once the prompt is
        counted = replace(finish, frames_generated=sequence.frames, frame_limit=limit)
        self._queue(sequence, time.monotonic_ns(), counted)
        if sequence.slot >= 0:
            self.runner.state.clear(sequence.slot)
        self.scheduler.drop(sequence)
        del self._alive[sequence.request.id]

    def _queue(self, sequence: Sequence, now: int, finish: Finish | None) -> None:
        held, sequence.held = sequence.held, []
        pcm = np.concatenate(held) if held else np.zeros(0, dtype=np.float32)
        span = (sequence.frames - len(held), sequence.frames)
        self._out.append(
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

    def _reason(self, sequence: Sequence, finish: Finish | None) -> EmitReason:
        if finish is not None:
            return EmitReason.CANCEL if finish.reason is FinishReason.CANCELLED else EmitReason.FLUSH
        first = self.options.first_frame_at_once and sequence.chunks == 0
        return EmitReason.FIRST if first else EmitReason.THRESHOLD
