"""Faults made before the codec decodes: joints that a decoder has smoothed, and joints that it has not.

A row is encoded and decoded again by a checkpoint's own codec, with frames left out or repeated among its codes, or in
chunks of five frames that each start without context.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scripts.pcm_faults import Broken, Fault
from ttsbench.assets import asset_folder
from ttsbench.records.pcm import FaultKind

if TYPE_CHECKING:
    from torch import Tensor

    from ttsbench.models.qwen3_tts.codec import Codec

FRAMES = 25
CHUNK_FRAMES = 5
MARGIN = 3
"""Frames left alone at either end."""


def codec_faults(checkpoint: str) -> dict[str, tuple[Fault, tuple[FaultKind, ...]]]:
    """Faults by name, and the kinds of finding that fit each."""
    joint = (FaultKind.SPLICE, FaultKind.CLICK)
    return {
        "decoded again, nothing broken": (_before_decoding(checkpoint, _as_it_is), tuple(FaultKind)),
        "drop of 25 frames before decoding": (_before_decoding(checkpoint, _drop), (*joint, FaultKind.TOO_SHORT)),
        "replay of 25 frames before decoding": (_before_decoding(checkpoint, _repeat), (FaultKind.REPEAT,)),
        "chunks of 5 frames decoded without context": (_without_context(checkpoint), joint),
    }


Edit = Callable[["Tensor", int], tuple["Tensor", int]]
"""From codes [F, Q] and a start frame to codes and the frame of the fault."""


def _as_it_is(codes: Tensor, start: int) -> tuple[Tensor, int]:
    return codes, start


def _drop(codes: Tensor, start: int) -> tuple[Tensor, int]:
    import torch

    return torch.cat([codes[:start], codes[start + FRAMES :]]), start


def _repeat(codes: Tensor, start: int) -> tuple[Tensor, int]:
    import torch

    return torch.cat([codes[: start + FRAMES], codes[start:]]), start + FRAMES


def _before_decoding(checkpoint: str, edit: Edit) -> Fault:
    def fault(samples: np.ndarray, rate: int, hop: int, rng: np.random.Generator) -> Broken | None:
        starts = len(samples) // hop - FRAMES - 2 * MARGIN
        if starts <= 0:
            return None
        codes, frame = edit(_encode(checkpoint, samples), MARGIN + int(rng.integers(starts)))
        return Broken(_codec(checkpoint).decoder.decode(codes[None])[0].double().numpy(), frame * hop)

    return fault


def _without_context(checkpoint: str) -> Fault:
    def fault(samples: np.ndarray, rate: int, hop: int, rng: np.random.Generator) -> Broken | None:
        codes = _encode(checkpoint, samples)
        if len(codes) <= CHUNK_FRAMES:
            return None
        pcm = _codec(checkpoint).decoder.decode_chunked(codes[None], CHUNK_FRAMES, 0)
        return Broken(pcm[0].double().numpy(), CHUNK_FRAMES * hop)

    return fault


def _encode(checkpoint: str, samples: np.ndarray) -> Tensor:
    import torch

    return _codec(checkpoint).encoder.encode(torch.from_numpy(samples).float())


@cache
def _codec(checkpoint: str) -> Codec:
    import torch

    from ttsbench.models.qwen3_tts.checkpoint import Checkpoint

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    folder = asset_folder("tiny") if checkpoint == "tiny" else Path(checkpoint)
    return Checkpoint.load(folder, torch.device("cpu"), torch.float32).codec
