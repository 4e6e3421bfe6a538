"""Text rules by name. A rule is part of a protocol; figures under different rules are never compared."""

from ttsbench.score.normalise.seedtts import PUNCTUATION, normalise_seedtts

__all__ = ["PUNCTUATION", "normalise_seedtts"]
