"""Whisper's English normaliser, run from the package that published it (openai-whisper, `whisper.normalizers`).

Lower case, contractions written out, spoken numbers to digits, British to American spelling, fillers and whatever
stands in brackets deleted, every other mark replaced by a space. There is no stand-in for it: an evaluator that strips
punctuation instead where the package is absent has changed its metric.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ttsbench.score.normalise.packages import missing, require

DISTRIBUTION, VERSION = "openai-whisper", "20250625"


def normalise_whisper_english(text: str) -> str:
    """`text` under the rule. Raises InvalidInput without the package."""
    return _normaliser()(text)


@cache
def _normaliser() -> Callable[[str], str]:
    require(DISTRIBUTION, VERSION)
    try:
        from whisper.normalizers import EnglishTextNormalizer
    except ImportError as error:
        raise missing(DISTRIBUTION, VERSION, str(error)) from error
    return EnglishTextNormalizer()
