"""What a preempted request keeps: all that stood in its slot and blocks and cannot be computed again to the bit.

Keys and values are computed again from the exact inputs, which are saved as they were fed: no sum is taken twice, no
code drawn twice. Seed, limits and settings are the request's own, and its random numbers depend on the frame's number
alone; frames, chunks and samples that wait stay with the host's `Sequence`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec, StreamState
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig


@dataclass(frozen=True)
class Suspended:
    """The state of one request away from any slot, on the device, in memory of its own."""

    inputs: Tensor
    """[n, D] of its prompt, of its frames so far, and the text rows that wait."""
    seen: Tensor
    """bool [V], codes that the repetition penalty counts."""
    pad: Tensor
    """[D], its text row once the text has run out."""
    codec: StreamState


def most_bytes(config: Qwen3TTSConfig, codec: StreamingCodec, max_model_len: int, dtype: torch.dtype) -> int:
    """Of one `Suspended`: the history of a request of full length, and its codec state."""
    history = (max_model_len + 1) * config.talker.hidden_size * dtype.itemsize + config.talker_vocab_size
    return history + codec.bytes_per_slot
