"""A checkpoint serves its own task, by names it knows; anything else is an error that helps, never a fallback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.qwen3_tts.released_configs import LANGUAGES, released_config
from ttsbench.core import NamedVoice, ReferenceVoice, Voice, VoiceDescription
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.voices import (
    LANGUAGE_ALIASES,
    canonical_language,
    effective_language,
    language_problem,
    speaker_key,
    unknown_name,
    voice_problem,
)

CONFIGS = {
    task: Qwen3TTSConfig.from_dict(released_config("1b7", task)) for task in ("base", "custom_voice", "voice_design")
}
CUSTOM_VOICE = CONFIGS["custom_voice"]
VOICES: dict[str, Voice] = {
    "base": ReferenceVoice(Path("clip.wav")),
    "custom_voice": NamedVoice("serena"),
    "voice_design": VoiceDescription("a calm old man"),
}


@pytest.mark.parametrize("task", CONFIGS)
@pytest.mark.parametrize("voice", VOICES)
def test_a_checkpoint_serves_its_own_task_alone(task: str, voice: str) -> None:
    problem = voice_problem(CONFIGS[task], VOICES[voice])
    if task == voice:
        assert problem is None
    else:
        assert problem is not None
        assert problem.expected != problem.got
        assert problem.hint == f"this checkpoint is {task}"


@pytest.mark.parametrize("name", ["serena", "Serena", " SERENA\n", "Uncle_Fu"])
def test_case_and_space_do_not_matter_in_a_speaker(name: str) -> None:
    assert voice_problem(CUSTOM_VOICE, NamedVoice(name)) is None
    assert speaker_key(name) in CUSTOM_VOICE.speakers


@pytest.mark.parametrize(("name", "near"), [("Selena", "serena"), ("viviane", "vivian"), ("uncle fu", "uncle_fu")])
def test_an_unknown_speaker_gets_the_nearest_name(name: str, near: str) -> None:
    problem = voice_problem(CUSTOM_VOICE, NamedVoice(name))
    assert problem is not None
    assert problem.got == repr(name)
    assert problem.hint == f"did you mean {near!r}?"
    assert all(known in problem.expected for known in CUSTOM_VOICE.speakers)


def test_a_name_near_nothing_gets_no_hint() -> None:
    assert unknown_name("voice", "xylophone", ["aiden", "ryan"]).hint == ""


@pytest.mark.parametrize("language", ["auto", "Auto", " English ", "en", "ZH", *LANGUAGES])
def test_known_languages(language: str) -> None:
    assert language_problem(CUSTOM_VOICE, language) is None


@pytest.mark.parametrize(
    ("language", "hint"),
    [("Englsh", "did you mean 'english'?"), ("klingon", ""), ("", ""), ("english_us", "did you mean 'english'?")],
)
def test_unknown_languages(language: str, hint: str) -> None:
    problem = language_problem(CUSTOM_VOICE, language)
    assert problem is not None
    assert problem.hint == hint
    assert "dialect" not in problem.expected


@pytest.mark.parametrize("language", ["sichuan_dialect", "Beijing_Dialect"])
def test_a_dialect_cannot_be_asked_for(language: str) -> None:
    """Dialects come with their speakers. To break it: offer every row of the language table."""
    assert language_problem(CUSTOM_VOICE, language) is not None


def test_every_alias_is_a_released_language() -> None:
    assert sorted(LANGUAGE_ALIASES.values()) == sorted(LANGUAGES)
    assert canonical_language(" De ") == "german"


@pytest.mark.parametrize(
    ("speaker", "language", "effective"),
    [
        ("eric", "auto", "sichuan_dialect"),
        (" Eric ", "Chinese", "sichuan_dialect"),
        ("eric", "zh", "sichuan_dialect"),
        ("dylan", "Auto", "beijing_dialect"),
        ("eric", "english", "english"),
        ("dylan", "ja", "japanese"),
        ("serena", "auto", "auto"),
        ("serena", "chinese", "chinese"),
    ],
)
def test_a_dialect_replaces_chinese_and_auto_alone(speaker: str, language: str, effective: str) -> None:
    """To break it: replace auto only, as one other engine does, or every language."""
    assert effective_language(CUSTOM_VOICE, language, NamedVoice(speaker)) == effective


@pytest.mark.parametrize("task", ["base", "voice_design"])
def test_other_voices_have_no_dialect(task: str) -> None:
    assert effective_language(CONFIGS[task], "zh", VOICES[task]) == "chinese"
