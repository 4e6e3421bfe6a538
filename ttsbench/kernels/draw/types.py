"""What a draw is told, as device tensors: a step hands over slot numbers and nothing else comes from the host.

Shapes: S slots, B rows of this step, Q codebooks, V codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from ttsbench.kernels.draw.reference import FrameMemo


@dataclass(frozen=True, eq=False)
class DrawSettings:
    """How codes are drawn, one value per slot [S]: `core.DrawParams` as tensors."""

    sample: Tensor
    """bool; False takes the largest logit."""
    temperature: Tensor
    """float32."""
    top_k: Tensor
    """int32; 0 keeps all."""
    top_p: Tensor
    """float32; 1 keeps all."""


@dataclass(frozen=True, eq=False)
class FirstCodeRules:
    """What codebook 0 knows beside that."""

    penalty: Tensor
    """float32 [S]: repetition penalty."""
    min_frames: Tensor
    """int32 [S]: no end of speech before this frame number."""
    seen: Tensor
    """bool [S, V]: codes drawn so far. A draw marks its own."""
    eos: int
    """End of speech."""
    first_control_id: int
    """Ids from here on are never drawn, end of speech excepted. At least 1."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Who draws."""

    slots: Tensor
    """int64 [B]."""
    frames: Tensor
    """int64 [B]: frame number of each row, in [0, 2**32)."""
    seeds: Tensor
    """int64 [S], in [0, 2**63)."""
    memo: FrameMemo | None = None
    """From `prepared`: what the draws of one frame share on a CPU."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Where a frame's codes go."""

    codes: Tensor
    """int64 [B, Q]; a draw writes its own column."""
    finite: Tensor
    """bool [B]: stays True as long as all logits of the row are finite. A row with others draws code 0."""
