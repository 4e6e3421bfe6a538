"""The nouns every other room speaks in. Plain frozen dataclasses; nothing of the house is imported here."""

from ttsbench.core.chunk import AudioChunk, EmitReason, Finish, FinishReason
from ttsbench.core.engine import Engine, EngineInfo
from ttsbench.core.errors import InvalidInput, Problem, RowError
from ttsbench.core.request import (
    DrawParams,
    NamedVoice,
    ReferenceVoice,
    SamplingParams,
    SpeechRequest,
    TextLayout,
    Voice,
    VoiceDescription,
)

__all__ = [
    "AudioChunk",
    "DrawParams",
    "EmitReason",
    "Engine",
    "EngineInfo",
    "Finish",
    "FinishReason",
    "InvalidInput",
    "NamedVoice",
    "Problem",
    "ReferenceVoice",
    "RowError",
    "SamplingParams",
    "SpeechRequest",
    "TextLayout",
    "Voice",
    "VoiceDescription",
]
