"""The device half of a step: prepare, forward, sample, decode to PCM.

The host says which slots run (a `StepPlan`); everything else is read from and written to per-slot tensors. A frame is
complete in the step that draws its first code: code predictor and codec follow in the same step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ttsbench.core import SpeechRequest
from ttsbench.engine.kv_cache import PagedCache, StepAttention
from ttsbench.engine.sampler import FrameSampler
from ttsbench.engine.scheduler import StepPlan
from ttsbench.engine.slot_state import SlotState
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.prompt import Prompt
from ttsbench.models.qwen3_tts.talker import Talker


@dataclass(frozen=True)
class StepOutput:
    """What the host needs of a step, one row per sequence of `StepPlan.finishing`; all arrays freshly owned."""

    codes: np.ndarray
    """int64 [R, Q]; column 0 may be the end-of-speech id."""
    ended: np.ndarray
    """bool [R]: end of speech was drawn, the row holds no frame."""
    finite_logits: np.ndarray
    """bool [R]: all logits of talker and code predictor are finite."""
    finite_pcm: np.ndarray
    """bool [R]: all samples are finite."""
    pcm: np.ndarray
    """float32 [R, hop]."""

    @classmethod
    def empty(cls, num_codebooks: int, hop: int) -> StepOutput:
        none = np.zeros(0, dtype=bool)
        return cls(np.zeros((0, num_codebooks), dtype=np.int64), none, none, none, np.zeros((0, hop), dtype=np.float32))


class Runner:
    """Talker, code predictor and streaming codec over one set of slots."""

    def __init__(
        self, config: Qwen3TTSConfig, talker: Talker, codec: StreamingCodec, cache: PagedCache, state: SlotState
    ) -> None:
        self.config = config
        self.talker = talker
        self.codec = codec
        self.cache = cache
        self.state = state
        self.codebook_size = codec.decoder.config.codebook_size
        self.device = cache.tables.device

    @torch.inference_mode()
    def start(self, slot: int, blocks: list[int], request: SpeechRequest, prompt: Prompt) -> None:
        """Make a slot ready for a request, its codec primed with the reference frames of its context."""
        self.state.start(slot, request, prompt)
        self.cache.set_table(slot, blocks)
        where = torch.tensor([slot], device=self.device)
        self.codec.reset(where)
        if prompt.context_codes is not None and len(prompt.context_codes):
            self.codec.step(prompt.context_codes[None], where)

    @torch.inference_mode()
    def step(self, plan: StepPlan) -> StepOutput:
        """Run one planned step. Rows come back for `plan.finishing` only: a prompt cut midway yields none."""
        x, attend, last = self._prepare(plan)
        hidden = self.talker(x, attend.positions, attend)[last]
        if not plan.finishing:
            return StepOutput.empty(self.config.num_codebooks, self.codec.decoder.hop)
        slots = torch.tensor([s.slot for s in plan.finishing], dtype=torch.int64, device=self.device)
        codes, finite_logits = self._sample(plan, hidden, slots)
        pcm = self._decode(codes, slots)
        finite_pcm = pcm.isfinite().all(dim=1)
        ended = codes[:, 0] == self.config.control.eos
        on_host = (tensor.cpu().numpy() for tensor in (codes, ended, finite_logits, finite_pcm, pcm.float()))
        return StepOutput(*on_host)

    def _prepare(self, plan: StepPlan) -> tuple[Tensor, StepAttention, Tensor]:
        """Packed talker input [N, D], its attention, and the packed rows [R] that yield a frame."""
        decode = torch.tensor([s.slot for s in plan.decode], dtype=torch.int64, device=self.device)
        rows = [self.state.next_input[decode]]
        last = list(range(len(plan.decode)))
        end = len(last)
        for chunk in plan.prefill:
            rows.append(self.state.prompt_rows(chunk.sequence.slot, chunk.start, chunk.rows))
            end += chunk.rows
            if chunk.completes:
                last.append(end - 1)
        return (
            torch.cat(rows),
            StepAttention(self.cache, plan),
            torch.tensor(last, dtype=torch.int64, device=self.device),
        )

    def _sample(self, plan: StepPlan, hidden: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Codes [R, Q] of one frame per finishing row, committed to the slots; whether all logits were finite [R]."""
        sampler = FrameSampler(self.config, self.state, slots, [s.request.sampling for s in plan.finishing])
        first = sampler.first(self.talker.logits(hidden))
        rest = self.talker.code_predictor(hidden, self.talker.embed_codec(first), sampler.rest)
        codes = torch.cat((first[:, None], rest), dim=1)
        text = self.state.text_rows([s.slot for s in plan.finishing], [s.frames for s in plan.finishing])
        self.state.commit(slots, codes, self.talker.embed_frames(codes) + text)
        return codes, sampler.finite

    def _decode(self, codes: Tensor, slots: Tensor) -> Tensor:
        """PCM [R, hop] of one frame per slot. A row without a valid code 0 decodes code 0; the host discards it."""
        valid = codes[:, :1] < self.codebook_size
        codes = torch.cat((torch.where(valid, codes[:, :1], 0), codes[:, 1:]), dim=1)
        return self.codec.step(codes[:, None], slots)
