"""How numbers are written: fixed notation, units spelled out, rounded for reading only."""

from __future__ import annotations

from math import floor, log10

MOST_DECIMALS = 4


def percent(value: float) -> str:
    """A percentage with two decimals, as word error rates are published."""
    return f"{value:.2f} %"


def figure(value: float, digits: int = 3) -> str:
    """At least `digits` significant digits in fixed notation; the integer part is never rounded away."""
    if value == 0:
        return "0"
    decimals = digits - 1 - floor(log10(abs(value)))
    return f"{value:.{min(max(decimals, 0), MOST_DECIMALS)}f}"


def similarity(value: float) -> str:
    """A cosine x 100 with two decimals."""
    return f"{value:.2f}"


def share(part: int, whole: int) -> str:
    """A count out of another."""
    return f"{part} of {whole}"


def short(sha256: str) -> str:
    """Enough of a hash to tell it from others by eye."""
    return sha256[:12]
