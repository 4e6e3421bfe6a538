"""What people type for voice, seed and profile settings, checked against what the checkpoint serves."""

from __future__ import annotations

import secrets

from ttsbench.adapters.native import NativeEngine
from ttsbench.core import NamedVoice, Problem, VoiceDescription
from ttsbench.core.request import SEED_LIMIT
from ttsbench.models.qwen3_tts.config import ModelType


def checkpoint_voice(
    engine: NativeEngine, voice: str | None, instruct: str | None, problems: list[Problem]
) -> NamedVoice | VoiceDescription | None:
    """The voice that --voice and --instruct ask for; None for a Base checkpoint, whose voices are clips.

    Without --voice a CustomVoice checkpoint speaks with the first voice it lists.
    """
    kind = engine.checkpoint.config.model_type
    if voice is not None and kind is not ModelType.CUSTOM_VOICE:
        served = "a description (--instruct)" if kind is ModelType.VOICE_DESIGN else "reference clips"
        problems.append(Problem("--voice", f"no named voice: this checkpoint is {kind.value} and takes {served}", repr(voice)))
    if instruct is not None and kind is ModelType.BASE:
        problems.append(Problem("--instruct", "no instruction: Base checkpoints take none", repr(instruct)))
    match kind:
        case ModelType.BASE:
            return None
        case ModelType.VOICE_DESIGN:
            if not (instruct or "").strip():
                problems.append(Problem("--instruct", "a description of the voice", "none", 'try --instruct "a calm man"'))
            return VoiceDescription(instruct or "")
        case ModelType.CUSTOM_VOICE:
            return NamedVoice(engine.info().speakers[0] if voice is None else voice, instruct)


def drawn_seed() -> int:
    """A seed for somebody who gave none; it is recorded, so the run can be repeated."""
    return secrets.randbelow(SEED_LIMIT)


def parse_overrides(pairs: list[str], problems: list[Problem]) -> dict[str, str]:
    """`key=value` options as a map."""
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            problems.append(Problem("--override", "key=value", repr(pair), "such as --override max_num_seqs=4"))
        overrides[key.strip()] = value
    return overrides
