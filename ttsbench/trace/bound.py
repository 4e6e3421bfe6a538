"""How often something may still happen that was seen a few times, or never."""

from __future__ import annotations

import math

import numpy as np

_HALVINGS = 60
"""An interval halved so often is narrower than a float64 near 1 can tell."""


def upper_bound(events: int, trials: int, confidence: float = 0.95) -> float:
    """The largest rate at which `events` or fewer in `trials` is no rarer than 1 - `confidence`.

    One-sided Clopper-Pearson bound: p with P(X <= events | trials, p) = 1 - confidence. For no events it is
    1 - (1 - confidence)^(1 / trials), which the rule of three, 3 / trials, approximates at 95 %. Raises ValueError
    unless 0 <= events <= trials and trials > 0.
    """
    if not 0 <= events <= trials or trials == 0:
        raise ValueError(f"expected 0 <= events <= trials and some trials, got {events} of {trials}")
    if events == trials:
        return 1.0
    k = np.arange(events + 1)
    steps = np.log(trials - k[:-1]) - np.log(k[1:])
    log_ways = np.concatenate(([0.0], np.cumsum(steps)))  # log of the binomial coefficient
    low, high = events / trials, 1.0
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        if not low < rate < high:
            break
        terms = log_ways + k * math.log(rate) + (trials - k) * math.log1p(-rate)
        low, high = (rate, high) if np.exp(terms).sum() > 1 - confidence else (low, rate)
    return high
