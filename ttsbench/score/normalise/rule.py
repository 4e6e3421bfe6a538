"""Text rules by name, each with what decides its results. A protocol holds one rule per language.

A rule has two sides. The reference is only normalised; the transcript may be brought into the reference's script first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pydantic import JsonValue

from ttsbench.score.normalise import simplified, whisper_english
from ttsbench.score.normalise.evaluators import (
    PUNCTUATION_AND_APOSTROPHE,
    normalise_f5_tts,
    normalise_sglang_omni_zh,
    normalise_vllm_omni,
)
from ttsbench.score.normalise.seedtts import PUNCTUATION, normalise_seedtts


@dataclass(frozen=True)
class TextRule:
    """One rule in one language."""

    name: str
    normalise: Callable[[str], str]
    """Done to both texts."""
    prepare: Callable[[str], str] | None = None
    """Done to the transcript alone, before."""
    removed: str | None = None
    """Characters that vanish; None where a package decides."""
    packages: tuple[str, ...] = ()
    """What it runs, `name==version`, the versions being part of the rule."""

    def reference(self, text: str) -> str:
        """The target text as it is compared. Raises InvalidInput when a package of the rule is absent."""
        return self.normalise(text)

    def hypothesis(self, transcript: str) -> str:
        """The transcript as it is compared. Raises InvalidInput when a package of the rule is absent."""
        return self.normalise(self.prepare(transcript) if self.prepare else transcript)

    def pinned(self) -> dict[str, JsonValue]:
        """Everything that decides what it makes of a text."""
        pins: dict[str, JsonValue] = {"name": self.name}
        if self.removed is not None:
            pins["removed"] = self.removed
        if self.packages:
            pins["packages"] = list(self.packages)
        return pins


ByLanguage = Mapping[str, TextRule]
"""A rule's form in each language it knows, "en" and "zh"."""

_ZHCONV = f"{simplified.DISTRIBUTION}=={simplified.VERSION}"
_WHISPER = f"{whisper_english.DISTRIBUTION}=={whisper_english.VERSION}"


class _InLanguage(Protocol):
    def __call__(self, text: str, language: str) -> str: ...


def _both(name: str, normalise: _InLanguage, removed: str) -> ByLanguage:
    """A rule of the Seed-TTS kind, which takes the language; only Chinese needs its transcript prepared."""
    english = TextRule(name, partial(normalise, language="en"), removed=removed)
    return {"en": english, "zh": _chinese(name, partial(normalise, language="zh"), removed)}


def _chinese(name: str, normalise: Callable[[str], str], removed: str) -> TextRule:
    return TextRule(name, normalise, simplified.to_simplified, removed, (_ZHCONV,))


SEEDTTS = _both("seedtts", normalise_seedtts, PUNCTUATION)
VLLM_OMNI = _both("vllm-omni-0.30", normalise_vllm_omni, PUNCTUATION)
F5_TTS = _both("f5-tts", normalise_f5_tts, PUNCTUATION_AND_APOSTROPHE)
SGLANG_OMNI: ByLanguage = {
    "en": TextRule("whisper-english", whisper_english.normalise_whisper_english, packages=(_WHISPER,)),
    "zh": _chinese("sglang-omni-zh", normalise_sglang_omni_zh, PUNCTUATION + " "),
}

TEXT_RULES: Mapping[str, ByLanguage] = {
    "seedtts": SEEDTTS,
    "vllm-omni": VLLM_OMNI,
    "f5-tts": F5_TTS,
    "sglang-omni": SGLANG_OMNI,
}
"""Every rule, by the evaluator it is from."""
