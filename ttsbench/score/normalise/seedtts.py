"""The official Seed-TTS text rule, step by step and with its oddities (seed-tts-eval, `run_wer.py`).

1. Remove (not: replace by a space) every Chinese and every ASCII punctuation mark except the ASCII apostrophe.
2. Replace each pair of spaces by one, once, from the left.
3. English: lower case. Chinese: a space between all characters, so that words are characters.

Numbers stay as they are: "fifty" and "50" differ, as they do in the published figures. Known traps, kept on purpose:
the typographic apostrophe is removed ("it’s" becomes "its", "it's" stays); "well-known" becomes "wellknown"; an em dash
glues its neighbours together; the no-break space is neither removed nor squeezed.
"""

from __future__ import annotations

import string
from functools import cache

HANZI_PUNCTUATION = (
    "＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠"  # full-width forms of ASCII marks
    "｢｣､"  # half-width CJK
    "\u3000、〃〈〉《》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿"  # CJK, the ideographic space first
    "–—‘’‛“”„‟…‧﹏﹑﹔·"  # dashes, quotation marks, ellipsis, small forms, middle dot
    "．！？｡。"  # full stops and other ends of a sentence
)
"""`zhon.hanzi.punctuation` of zhon 2.1.1 (MIT), the set the official script imports. zhon 1.x lacks U+FF0E."""

PUNCTUATION = (HANZI_PUNCTUATION + string.punctuation).replace("'", "")
"""Every character that the rule removes."""


def normalise_seedtts(text: str, language: str) -> str:
    """`text` under the rule; `language` is "en" or "zh", the only two the rule knows (ValueError otherwise)."""
    return as_words(remove(text, PUNCTUATION).replace("  ", " "), language)


def remove(text: str, marks: str) -> str:
    """`text` without those characters; nothing takes their place."""
    return text.translate(_table(marks))


def as_words(text: str, language: str) -> str:
    """The rule's last step: lower case in English, characters apart in Chinese."""
    if language == "en":
        return text.lower()
    if language == "zh":
        return " ".join(text)
    raise ValueError(f"the Seed-TTS text rule knows en and zh, got {language!r}")


@cache
def _table(marks: str) -> dict[int, None]:
    return dict.fromkeys(map(ord, marks))
