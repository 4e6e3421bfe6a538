"""From logits to codes, in the published order.

Codebook 0: repetition penalty over the set of codes drawn so far (each once, whatever its count; prompts do not count),
no end of speech before `min_frames` frames, control ids suppressed; then, unless greedy, temperature, top-k with ties
kept, top-p, softmax, draw. Codebooks 1..Q-1 know only the last part. Parameters are one value per row, so requests with
different settings share a batch, and top-k is a number at run time.

A draw takes one uniform per row and walks the cumulative distribution in code order: a small change of the logits moves
its boundaries a little and never swaps two codes' intervals, which keeps a seeded row's codes stable under rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.core import DrawParams

NEVER = float("-inf")


@dataclass(frozen=True)
class RowDraws:
    """`DrawParams` of B rows as tensors, with the host's knowledge of which steps can be left out."""

    sample: Tensor
    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    any_sample: bool
    largest_top_k: int
    any_top_p: bool

    @classmethod
    def of(cls, params: Sequence[DrawParams], device: torch.device) -> RowDraws:
        def column(values: list[float] | list[int] | list[bool]) -> Tensor:
            return torch.tensor(values, device=device)

        return cls(
            sample=column([p.do_sample for p in params]),
            temperature=column([float(p.temperature) for p in params]),
            top_k=column([p.top_k for p in params]),
            top_p=column([float(p.top_p) for p in params]),
            any_sample=any(p.do_sample for p in params),
            largest_top_k=max((p.top_k for p in params), default=0),
            any_top_p=any(p.top_p < 1 for p in params),
        )


def penalise_repeats(logits: Tensor, seen: Tensor, penalty: Tensor) -> Tensor:
    """Divide positive, multiply negative logits [B, V] of `seen` [B, V] codes by `penalty` [B] (CTRL, Keskar 2019)."""
    penalty = penalty[:, None]
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def forbid(logits: Tensor, forbidden: Tensor) -> Tensor:
    """-inf where `forbidden` (broadcast to [B, V]) is True."""
    return logits.masked_fill(forbidden, NEVER)


def keep_top_k(logits: Tensor, top_k: Tensor, largest: int) -> Tensor:
    """Keep logits that reach their row's k-th largest, ties included; `top_k` [B], 0 keeps all, at most `largest`."""
    largest = min(largest, logits.shape[-1])
    if largest == 0:
        return logits
    best = logits.topk(largest, dim=-1).values
    kth = best.gather(1, (top_k.clamp(1, largest) - 1)[:, None])
    return forbid(logits, (logits < kth) & (top_k > 0)[:, None])


def keep_top_p(logits: Tensor, top_p: Tensor) -> Tensor:
    """Drop the least likely codes that together hold at most 1 - `top_p` [B] (nucleus sampling, Holtzman 2020).

    Among equal logits at the border the lower ids go first; the published processor leaves that to an unstable sort.
    """
    probs, order = torch.softmax(logits, dim=-1).sort(dim=-1, stable=True)
    dropped = probs.cumsum(dim=-1) <= 1 - top_p[:, None]
    dropped[:, -1] = False
    return forbid(logits, torch.zeros_like(dropped).scatter(1, order, dropped))


def distribution(logits: Tensor, draws: RowDraws) -> Tensor:
    """Probabilities [B, V] that sampling rows draw from, float32."""
    # From the largest down, so that no temperature can push a logit to +inf and the softmax to NaN.
    scaled = (logits - logits.amax(dim=-1, keepdim=True)) / draws.temperature[:, None]
    scaled = keep_top_k(scaled, draws.top_k, draws.largest_top_k)
    if draws.any_top_p:
        scaled = keep_top_p(scaled, draws.top_p)
    return torch.softmax(scaled, dim=-1)


def draw_codes(logits: Tensor, draws: RowDraws, uniforms: Tensor) -> Tensor:
    """One code per row [B] from float32 `logits` [B, V]; greedy rows take the largest logit.

    `uniforms` [B] are float32 in the open interval (0, 1): the largest, 1 - 2**-24, still lies below the whole sum.
    """
    greedy = logits.argmax(dim=-1)
    if not draws.any_sample:
        return greedy
    cdf = distribution(logits, draws).double().cumsum(dim=-1)
    target = uniforms.double()[:, None] * cdf[:, -1:]
    drawn = torch.searchsorted(cdf, target, right=True).squeeze(1).clamp(max=logits.shape[-1] - 1)
    return torch.where(draws.sample, drawn, greedy)
