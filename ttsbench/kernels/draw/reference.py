"""From logits to codes in torch, in the published order.

Codebook 0: repetition penalty over the set of codes drawn so far (each once, whatever its count; prompts do not count),
no end of speech before `min_frames` frames, control ids suppressed; then, unless greedy, temperature, top-k with ties
kept, top-p, softmax, draw. Codebooks 1..Q-1 know only the last part. Settings are one value per row, so requests with
different settings share a batch, and top-k is a number at run time.

A draw takes one uniform per row and walks the cumulative distribution in code order: a small change of the logits moves
its boundaries a little and never swaps two codes' intervals, which keeps a seeded row's codes stable under rounding.

This is also what a CPU runs, so it leaves out what no row asks for; finding that out would make a GPU wait.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.kernels.draw.philox import uniforms
from ttsbench.kernels.draw.types import Drawn, DrawSettings, FirstCodeRules, RowDraws, RowNorm, Rows

NEVER = float("-inf")


def draw_first_code(
    logits: Tensor,
    rows: Rows,
    settings: DrawSettings,
    rules: FirstCodeRules,
    drawn: Drawn,
    table: Tensor,
    out: Tensor,
) -> None:
    """See `ttsbench.kernels.draw`."""
    logits = logits.float()
    finite = _all_finite(logits)
    codes = _draw(0, _by_the_rules(logits, rows, rules), finite, rows, settings)
    rules.seen[rows.slots, codes] = True
    drawn.codes.select(1, 0).copy_(codes)
    drawn.finite.copy_(finite)
    torch.index_select(table, 0, codes, out=out)


def draw_code(
    book: int,
    logits: Tensor,
    rows: Rows,
    settings: DrawSettings,
    drawn: Drawn,
    table: Tensor | None,
    out: Tensor | None,
    norm: RowNorm | None = None,
) -> None:
    """See `ttsbench.kernels.draw`."""
    logits = logits.float()
    finite = _all_finite(logits)
    codes = _draw(book, logits, finite, rows, settings)
    drawn.codes.select(1, book).copy_(codes)
    drawn.finite.logical_and_(finite)
    if table is not None and out is not None:
        torch.index_select(table, 0, codes, out=out)
    if norm is not None and out is not None:
        norm.rows.copy_(out.float() * norm.weight.float())
        torch.index_select(norm.squares_of, 0, codes, out=norm.squares)


def _all_finite(logits: Tensor) -> Tensor:
    """Whether each row [B] is free of infinities and NaN, which fails every comparison."""
    return logits.abs().amax(dim=1) < float("inf")


def _by_the_rules(logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
    """Penalty, suppressed control ids, and no end of speech too early; a new tensor [B, V]."""
    logits = penalise_repeats(logits, rules.seen[rows.slots], rules.penalty[rows.slots])
    too_early = rows.frames < rules.min_frames[rows.slots]
    end = logits[:, rules.eos].masked_fill(too_early, NEVER)
    logits[:, rules.first_control_id :] = NEVER
    logits[:, rules.eos] = end
    return logits


def _draw(book: int, logits: Tensor, finite: Tensor, rows: Rows, settings: DrawSettings) -> Tensor:
    """Codes [B]; 0, which every vocabulary has, where the logits mean nothing."""
    draws = None if rows.memo is None else rows.memo.draws.get(settings)
    if draws is None:
        draws = RowDraws.of(settings, rows.slots)
        if rows.memo is not None:
            rows.memo.draws[settings] = draws
    return draw_codes(logits, draws, _uniforms(book, rows)).mul_(finite)


def _uniforms(book: int, rows: Rows) -> Tensor:
    """The random numbers [B] of one codebook."""
    if rows.memo is not None:
        return rows.memo.uniforms[:, book]
    return uniforms(rows.seeds[rows.slots], rows.frames, torch.tensor([book], device=rows.slots.device))[:, 0]


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
    if not draws.any_sample:
        return logits.argmax(dim=-1)
    cdf = distribution(logits, draws).double().cumsum(dim=-1)
    target = uniforms.double()[:, None] * cdf[:, -1:]
    drawn = torch.searchsorted(cdf, target, right=True).squeeze(1).clamp(max=logits.shape[-1] - 1)
    return torch.where(draws.sample, drawn, logits.argmax(dim=-1)) if draws.any_greedy else drawn
