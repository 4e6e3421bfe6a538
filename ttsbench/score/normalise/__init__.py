"""Text rules by name. A rule is part of a protocol; figures under different rules are never compared."""

from ttsbench.score.normalise.rule import F5_TTS, SEEDTTS, SGLANG_OMNI, TEXT_RULES, VLLM_OMNI, ByLanguage, TextRule
from ttsbench.score.normalise.seedtts import PUNCTUATION, normalise_seedtts

__all__ = [
    "F5_TTS",
    "PUNCTUATION",
    "SEEDTTS",
    "SGLANG_OMNI",
    "TEXT_RULES",
    "VLLM_OMNI",
    "ByLanguage",
    "TextRule",
    "normalise_seedtts",
]
