"""What a draw is told, as device tensors: a step hands over slot numbers and nothing else comes from the host.

Shapes: S slots, B rows of this step, Q codebooks, V codes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


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


@dataclass(frozen=True)
class RowDraws:
    """`DrawSettings` of B rows, with the host's knowledge of which steps can be left out."""

    sample: Tensor
    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    any_sample: bool
    any_greedy: bool
    largest_top_k: int
    any_top_p: bool

    @classmethod
    def of(cls, settings: DrawSettings, slots: Tensor) -> RowDraws:
        sample, top_k, top_p = settings.sample[slots], settings.top_k[slots].long(), settings.top_p[slots]
        return cls(
            sample=sample,
            temperature=settings.temperature[slots],
            top_k=top_k,
            top_p=top_p,
            any_sample=any(sample.tolist()),
            any_greedy=not all(sample.tolist()),
            largest_top_k=max(top_k.tolist(), default=0),
            any_top_p=any(p < 1 for p in top_p.tolist()),
        )


@dataclass(frozen=True)
class FrameMemo:
    """What the draws of one frame share: its random numbers [B, Q], and the settings of its rows once looked up."""

    uniforms: Tensor
    draws: dict[DrawSettings, RowDraws] = field(default_factory=dict)


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
class RowNorm:
    """The norm of the layer that embeddings go into, all but the scale of a row (`fused_linear.Normed`); D width."""

    weight: Tensor
    """[D]."""
    squares_of: Tensor
    """float32 [at least V]: the sum of squares of each embedding."""
    rows: Tensor
    """[B, D], written: the embeddings of the drawn codes times the weight."""
    squares: Tensor
    """float32 [B], written: their sums of squares."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Where a frame's codes go."""

    codes: Tensor
    """int64 [B, Q]; a draw writes its own column."""
    finite: Tensor
    """bool [B]: True from the first code on, as long as all logits of the row are finite. A row with others draws
    code 0.
    """
