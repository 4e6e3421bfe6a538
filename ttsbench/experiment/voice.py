"""What people type for a voice, checked against what the checkpoint serves."""

from __future__ import annotations

from ttsbench.core import NamedVoice, Problem, VoiceDescription
from ttsbench.models.qwen3_tts.config import ModelType, Qwen3TTSConfig


def checkpoint_voice(
    config: Qwen3TTSConfig, voice: str | None, instruct: str | None, problems: list[Problem]
) -> NamedVoice | VoiceDescription | None:
    """The voice that --voice and --instruct ask for; None for a Base checkpoint, whose voices are clips.

    Without --voice a CustomVoice checkpoint speaks with the first voice it lists. Whether it knows a name is for
    `served_problems` to say.
    """
    kind = config.model_type
    if voice is not None and kind is not ModelType.CUSTOM_VOICE:
        served = "a description (--instruct)" if kind is ModelType.VOICE_DESIGN else "reference clips"
        expected = f"no named voice: this checkpoint is {kind.value} and takes {served}"
        problems.append(Problem("--voice", expected, repr(voice)))
    if instruct is not None:
        problems += _instruct_problems(config, instruct)
    match kind:
        case ModelType.BASE:
            return None
        case ModelType.VOICE_DESIGN:
            if instruct is None:
                hint = 'try --instruct "a calm man"'
                problems.append(Problem("--instruct", "a description of the voice", "none", hint))
            return VoiceDescription(instruct or "")
        case ModelType.CUSTOM_VOICE:
            return NamedVoice(next(iter(config.speakers), "") if voice is None else voice, instruct)


def _instruct_problems(config: Qwen3TTSConfig, instruct: str) -> list[Problem]:
    """An instruction that would change nothing is refused, not dropped."""
    if config.model_type is ModelType.BASE:
        return [Problem("--instruct", "no instruction: Base checkpoints take none", repr(instruct))]
    if not config.honours_instruct:
        expected = f"no instruction: checkpoints of size {config.model_size} ignore them, as published"
        return [Problem("--instruct", expected, repr(instruct))]
    return [] if instruct.strip() else [Problem("--instruct", "words", repr(instruct), "leave it out")]
