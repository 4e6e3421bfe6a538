"""Draws the codes of one frame for every row of a step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ttsbench.core import SamplingParams
from ttsbench.engine.rng import frame_uniforms
from ttsbench.engine.slot_state import SlotState
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.sampling import RowDraws, draw_codes, forbid, penalise_repeats


class FrameSampler:
    """Sampling of one step: made for its rows, asked once per codebook in order."""

    def __init__(
        self, config: Qwen3TTSConfig, state: SlotState, slots: Tensor, params: Sequence[SamplingParams]
    ) -> None:
        self.state = state
        self.slots = slots
        self.uniforms = frame_uniforms(state.seed[slots], state.frame[slots], config.num_codebooks)
        self.talker = RowDraws.of([p.talker for p in params], slots.device)
        self.predictor = RowDraws.of([p.code_predictor for p in params], slots.device)
        self.finite = torch.ones(len(params), device=slots.device, dtype=torch.bool)
        """Rows [B] whose logits have all been finite so far: a draw from NaN gives some code that means nothing."""

    def first(self, logits: Tensor) -> Tensor:
        """Codebook 0 or end of speech [B] from float32 logits [B, talker vocabulary]."""
        self.finite &= logits.isfinite().all(dim=1)
        state, slots = self.state, self.slots
        logits = penalise_repeats(logits, state.seen[slots], state.penalty[slots])
        too_early = state.frame[slots] < state.min_frames[slots]
        logits = forbid(logits, state.suppressed | (too_early[:, None] & state.is_eos))
        return draw_codes(logits, self.talker, self.uniforms[:, 0])

    def rest(self, book: int, logits: Tensor) -> Tensor:
        """Codebook `book` >= 1 [B] from float32 logits [B, codebook size]: a `code_predictor.Draw`."""
        self.finite &= logits.isfinite().all(dim=1)
        return draw_codes(logits, self.predictor, self.uniforms[:, book])
