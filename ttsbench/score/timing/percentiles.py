"""Percentiles with order-statistic intervals, withheld where the sample cannot carry them.

How many of n independent values lie below the true p-quantile is binomial (n, p), whatever the values' distribution. So
two values of the sorted sample enclose it with a known probability, and no shape need be assumed. The interval is for
the run at hand: rows of one start share its luck, and only more starts can tell about that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, lgamma, log

import numpy as np

from ttsbench.records.distribution import Distribution, Percentile

TAIL = 0.025
"""Chance, at most, that an end of the 95 % interval lies on the wrong side."""
WITHHELD_BELOW = 1
"""A percentile needs as many values expected beyond it: 100 rows for p99."""
WEAK_BELOW = 5
"""Under as many it is marked weak: 500 rows for p99."""
LEVELS = (50, 90, 95, 99)


def distribution(
    values: Sequence[float], rows_without: Mapping[str, int] | None = None, dependent: str | None = None
) -> Distribution:
    """A distribution of at least one value; `dependent` says why the values are not independent, if they are not."""
    if not values:
        raise ValueError("no values have no distribution; say why there are none")
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    levels = {f"p{level}": percentile(ordered, level, dependent) for level in LEVELS}
    return Distribution(
        values=len(ordered),
        rows_without_by_reason=dict(sorted((rows_without or {}).items())),
        mean=float(ordered.mean()),
        smallest=float(ordered[0]),
        largest=float(ordered[-1]),
        **levels,
    )


def percentile(ordered: np.ndarray, level: int, dependent: str | None = None) -> Percentile:
    """Percentile `level` (1 to 99) of sorted values, shape [n]."""
    n = len(ordered)
    beyond_pct = n * min(level, 100 - level)  # in hundredths of a value, so that 10 values reach p90 exactly
    if beyond_pct < 100 * WITHHELD_BELOW:
        why = f"p{level} needs {-(-100 * WITHHELD_BELOW // min(level, 100 - level))} values, there are {n}"
        return Percentile(
            value=None, value_missing=why, low=None, low_missing=why, high=None, high_missing=why, weak=True
        )
    low, high = (None, None) if dependent else interval_ranks(n, level / 100)
    return Percentile(
        value=float(np.percentile(ordered, level)),
        low=None if low is None else float(ordered[low - 1]),
        low_missing=(dependent or _no_end(n, level, "lower")) if low is None else None,
        high=None if high is None else float(ordered[high - 1]),
        high_missing=(dependent or _no_end(n, level, "upper")) if high is None else None,
        weak=beyond_pct < 100 * WEAK_BELOW,
    )


def interval_ranks(n: int, p: float) -> tuple[int | None, int | None]:
    """Ranks (from 1) of the sorted values that enclose the p-quantile, each end wrong with at most `TAIL`.

    The lower end is the largest rank l with P(B < l) <= TAIL, the upper the smallest u with P(B >= u) <= TAIL, B being
    binomial (n, p). None where no value is far enough out.
    """
    below = np.cumsum(_binomial(n, p))  # [k]: P(B <= k)
    low = int(np.searchsorted(below, TAIL, side="right"))
    high = int(np.searchsorted(below, 1 - TAIL, side="left")) + 1
    return (low or None), (high if high <= n else None)


def _binomial(n: int, p: float) -> np.ndarray:
    """P(B = k) for k = 0..n, shape [n + 1]."""
    at = lgamma(n + 1)
    return np.array(
        [exp(at - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log(1 - p)) for k in range(n + 1)]
    )


def _no_end(n: int, level: int, end: str) -> str:
    return f"{n} values are too few for the {end} end of a 95 % interval of p{level}"
