"""English text to the symbols that Kokoro-82M v1.0 reads: espeak-ng's IPA, then a few rewritings.

Kokoro writes diphthongs as one capital letter, r as ɹ, and American vowels without length marks; it reads punctuation,
which espeak-ng drops, so text goes through espeak-ng clause by clause.
"""

from __future__ import annotations

import re
import subprocess

# In this order: later rules see what earlier ones wrote.
COMMON = (
    ("r", "ɹ"), ("x", "k"), ("ʲ", "j"), ("ɬ", "l"), ("ʔˌn\u0329", "tᵊn"), ("ʔn\u0329", "tᵊn"), ("ʔ", "t"),
    ("ɚɹ", "əɹ"), ("ɚ", "əɹ"),
)  # fmt: skip
BRITISH = (("eə", "ɛː"), ("iə", "ɪə"), ("əʊ", "Q"))
DIPHTHONGS = (("aɪ", "I"), ("aʊ", "W"), ("eɪ", "A"), ("ɔɪ", "Y"), ("oʊ", "O"), ("dʒ", "ʤ"), ("tʃ", "ʧ"))
REST = (("e", "A"), ("ç", "k"), ("ɐ", "ə"), ("əl", "ᵊl"))
AMERICAN = (("ɜːɹ", "ɜɹ"), ("ɜː", "ɜɹ"), ("ɪə", "iə"), ("ː", ""))


def kokoro_symbols(text: str, *, british: bool) -> str:
    """Symbols for `text`, which ends with a mark; its marks are kept in place."""
    accent = "en-gb" if british else "en-us"
    clauses_with_marks = re.findall(r"([^,.?!]+)([,.?!] ?)", text)
    return "".join(rewrite(espeak_ipa(clause, accent), british=british) + mark for clause, mark in clauses_with_marks)


def espeak_ipa(clause: str, accent: str) -> str:
    result = subprocess.run(
        ["espeak-ng", "-q", "--ipa", "-v", accent, clause], check=True, capture_output=True, encoding="utf-8"
    )
    return " ".join(result.stdout.split())


def rewrite(ipa: str, *, british: bool) -> str:
    """espeak-ng's IPA of one clause in Kokoro's symbols."""
    symbols = ipa
    for old, new in COMMON + (BRITISH if british else ()) + DIPHTHONGS:
        symbols = symbols.replace(old, new)
    symbols = re.sub("(\\S)\u0329", r"ᵊ\1", symbols)  # a syllabic consonant gets a short vowel in front
    for old, new in REST + (() if british else AMERICAN):
        symbols = symbols.replace(old, new)
    return symbols
