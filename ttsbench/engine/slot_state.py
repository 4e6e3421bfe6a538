"""What the device knows about each slot: one row per slot in every array, the last one for padding rows.

Settings that a request brings (seed, limits, sampling) and block tables are written by the host and travel with each
step; the codes seen and the pad row change on the device. A step reads slot numbers and finds all it needs here.
"""

from __future__ import annotations

import numpy as np
import torch

from ttsbench.core import DrawParams, SpeechRequest
from ttsbench.engine.control import Control, Layout
from ttsbench.kernels.draw import DrawSettings, FirstCodeRules
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig


def slot_layout(num_slots: int, blocks_per_slot: int) -> Layout:
    """The arrays that the host writes per slot."""
    layout: dict[str, tuple[tuple[int, ...], type[np.generic]]] = {
        "seeds": ((num_slots,), np.int64),
        "limits": ((num_slots,), np.int64),
        "min_frames": ((num_slots,), np.int32),
        "penalty": ((num_slots,), np.float32),
        "tables": ((num_slots, blocks_per_slot), np.int32),
    }
    for part in ("talker", "predictor"):
        layout |= {
            f"{part}.sample": ((num_slots,), np.bool_),
            f"{part}.temperature": ((num_slots,), np.float32),
            f"{part}.top_k": ((num_slots,), np.int32),
            f"{part}.top_p": ((num_slots,), np.float32),
        }
    return layout


class SlotState:
    """Arrays over `num_slots` slots, the padding slot included, inside `control`."""

    def __init__(
        self, config: Qwen3TTSConfig, num_slots: int, control: Control, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.control = control
        self.seen = torch.zeros((num_slots, config.talker_vocab_size), device=device, dtype=torch.bool)
        self.pads = torch.zeros((num_slots, config.talker.hidden_size), device=device, dtype=dtype)
        host, on_device = control.host, control.device
        host["penalty"][:] = 1.0
        for part in ("talker", "predictor"):
            self._set_draws(part, slice(None), DrawParams())
        self.seeds = on_device["seeds"]
        self.limits = on_device["limits"]
        self.talker = self._draws("talker")
        self.predictor = self._draws("predictor")
        self.rules = FirstCodeRules(
            penalty=on_device["penalty"],
            min_frames=on_device["min_frames"],
            seen=self.seen,
            eos=config.control.eos,
            first_control_id=config.first_control_id,
        )

    def start(self, slot: int, blocks: list[int], request: SpeechRequest, frame_limit: int, pad: torch.Tensor) -> None:
        """Make `slot` as good as new for a request; `pad` [D] is its text row once the text has run out."""
        host = self.control.host
        host["seeds"][slot] = request.seed
        host["limits"][slot] = frame_limit
        host["min_frames"][slot] = min(request.sampling.min_frames, np.iinfo(np.int32).max)
        host["penalty"][slot] = request.sampling.repetition_penalty
        self.put_blocks(slot, blocks)
        self._set_draws("talker", slot, request.sampling.talker)
        self._set_draws("predictor", slot, request.sampling.code_predictor)
        self.seen[slot].zero_()
        self.pads[slot].copy_(pad)

    def put_blocks(self, slot: int, blocks: list[int]) -> None:
        """The blocks of `slot`, in the order of their positions."""
        self.control.host["tables"][slot, : len(blocks)] = blocks

    def _set_draws(self, part: str, slot: int | slice, params: DrawParams) -> None:
        host = self.control.host
        host[f"{part}.sample"][slot] = params.do_sample
        host[f"{part}.temperature"][slot] = params.temperature
        host[f"{part}.top_k"][slot] = min(params.top_k, np.iinfo(np.int32).max)
        host[f"{part}.top_p"][slot] = params.top_p

    def _draws(self, part: str) -> DrawSettings:
        names = ("sample", "temperature", "top_k", "top_p")
        return DrawSettings(*(self.control.device[f"{part}.{name}"] for name in names))
