"""The Seed-TTS rule as other public evaluators carry it out. Each differs in one step, and so may its figures.

vLLM-Omni 0.30 (`process_one_official`) means to squeeze pairs of spaces, but replaces one space by one. F5-TTS
(`run_asr_wer`) removes the ASCII apostrophe too, so that "it's" and "it’s" are one word, and so are "we're" and "were".
SGLang-Omni deletes every space from Chinese before it sets the characters apart.
"""

from __future__ import annotations

from ttsbench.score.normalise.seedtts import PUNCTUATION, as_words, remove

PUNCTUATION_AND_APOSTROPHE = PUNCTUATION + "'"
"""Every character that F5-TTS removes."""


def normalise_vllm_omni(text: str, language: str) -> str:
    """`text` in "en" or "zh" under the rule of vLLM-Omni 0.30."""
    return as_words(remove(text, PUNCTUATION), language)


def normalise_f5_tts(text: str, language: str) -> str:
    """`text` in "en" or "zh" under the rule of F5-TTS."""
    return as_words(remove(text, PUNCTUATION_AND_APOSTROPHE).replace("  ", " "), language)


def normalise_sglang_omni_zh(text: str) -> str:
    """Chinese `text` under the rule of SGLang-Omni. The ideographic space is among the punctuation."""
    return as_words(remove(text, PUNCTUATION + " ").strip(), "zh")
