"""Which voices, languages and instructions a checkpoint serves: pure lookups over its config, no tensors.

A checkpoint serves its own task only. Names are matched without regard to case or surrounding spaces; an unknown name
is an error that lists the known ones, never a fallback voice or language.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ttsbench.core import NamedVoice, Problem, ReferenceVoice, Voice, VoiceDescription
from ttsbench.models.qwen3_tts.config import ModelType, Qwen3TTSConfig

LANGUAGE_ALIASES = {
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "pt": "portuguese",
    "ru": "russian",
    "zh": "chinese",
}
"""ISO 639-1 codes accepted beside the checkpoint's own names."""

_SERVED: dict[ModelType, type] = {
    ModelType.BASE: ReferenceVoice,
    ModelType.CUSTOM_VOICE: NamedVoice,
    ModelType.VOICE_DESIGN: VoiceDescription,
}
_ASK = {
    ReferenceVoice: "a reference clip (Base checkpoints)",
    NamedVoice: "a named voice (CustomVoice checkpoints)",
    VoiceDescription: "a voice description (VoiceDesign checkpoints)",
}


def voice_problem(config: Qwen3TTSConfig, voice: Voice) -> Problem | None:
    """Why this checkpoint cannot speak with `voice`, or None."""
    served = _SERVED[config.model_type]
    if not isinstance(voice, served):
        return Problem("voice", _ASK[served], _ASK[type(voice)], f"this checkpoint is {config.model_type.value}")
    if isinstance(voice, NamedVoice) and speaker_key(voice.speaker) not in config.speakers:
        return unknown_name("voice", voice.speaker, config.speakers)
    return None


def language_problem(config: Qwen3TTSConfig, language: str) -> Problem | None:
    """Why this checkpoint cannot speak `language`, or None."""
    if canonical_language(language) in config.offered_languages:
        return None
    return unknown_name("language", language, config.offered_languages)


def speaker_key(name: str) -> str:
    return name.strip().lower()


def canonical_language(language: str) -> str:
    name = language.strip().lower()
    return LANGUAGE_ALIASES.get(name, name)


def effective_language(config: Qwen3TTSConfig, language: str, voice: Voice) -> str:
    """The language name whose id enters the prompt, or "auto" for none.

    A dialect speaker's own dialect replaces Chinese and auto, as in the published code.
    """
    name = canonical_language(language)
    if isinstance(voice, NamedVoice) and name in ("chinese", "auto"):
        return config.dialects.get(speaker_key(voice.speaker), name)
    return name


def unknown_name(what: str, name: str, known: Iterable[str]) -> Problem:
    """The error for a name that is not among `known`, with the nearest one as a hint."""
    names = sorted(known)
    near = difflib.get_close_matches(name.strip().lower(), names, n=1)
    return Problem(what, f"one of {', '.join(names)}", repr(name), f"did you mean {near[0]!r}?" if near else "")
