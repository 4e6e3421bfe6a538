"""What the device knows about each slot: one tensor row per slot, plus the prompt tensors it still needs.

Everything a step reads is here, so the host hands over slot numbers and nothing else.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.core import SpeechRequest
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.prompt import Prompt


class SlotState:
    """Per-slot tensors: next talker input, codes seen, seed, frame counter, penalty and minimum length."""

    def __init__(self, config: Qwen3TTSConfig, num_slots: int, device: torch.device, dtype: torch.dtype) -> None:
        self.next_input = torch.zeros((num_slots, config.talker.hidden_size), device=device, dtype=dtype)
        self.seen = torch.zeros((num_slots, config.talker_vocab_size), device=device, dtype=torch.bool)
        self.seed = torch.zeros(num_slots, device=device, dtype=torch.int64)
        self.frame = torch.zeros(num_slots, device=device, dtype=torch.int64)
        self.penalty = torch.ones(num_slots, device=device)
        self.min_frames = torch.zeros(num_slots, device=device, dtype=torch.int64)
        self.prompts: list[Prompt | None] = [None] * num_slots
        ids = torch.arange(config.talker_vocab_size, device=device)
        self.is_eos = ids == config.control.eos
        self.suppressed = (ids >= config.first_control_id) & ~self.is_eos
        """Control ids [V], never drawn; the same for all slots."""

    def start(self, slot: int, request: SpeechRequest, prompt: Prompt) -> None:
        """Make `slot` as good as new for a request."""
        self.seen[slot] = False
        self.seed[slot] = request.seed
        self.frame[slot] = 0
        self.penalty[slot] = request.sampling.repetition_penalty
        self.min_frames[slot] = request.sampling.min_frames
        self.prompts[slot] = prompt

    def clear(self, slot: int) -> None:
        """Drop the prompt tensors of a finished request."""
        self.prompts[slot] = None

    def prompt_rows(self, slot: int, start: int, rows: int) -> Tensor:
        return self._prompt(slot).rows[start : start + rows]

    def text_rows(self, slots: list[int], frames: list[int]) -> Tensor:
        """Text rows [B, D] that join frame `frames[i]` of `slots[i]`: trailing text first, then always the pad row."""
        rows = []
        for slot, frame in zip(slots, frames, strict=True):
            prompt = self._prompt(slot)
            rows.append(prompt.trailing[frame] if frame < len(prompt.trailing) else prompt.pad)
        return torch.stack(rows)

    def commit(self, slots: Tensor, codes: Tensor, next_input: Tensor) -> None:
        """Record one frame [B, Q] per slot."""
        self.seen[slots, codes[:, 0]] = True
        self.next_input[slots] = next_input
        self.frame[slots] += 1

    def _prompt(self, slot: int) -> Prompt:
        prompt = self.prompts[slot]
        if prompt is None:
            raise ValueError(f"slot {slot} holds no request")
        return prompt
