"""What an engine is asked for: one text, one voice, one seed, one length limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

SEED_LIMIT = 2**63
"""Seeds lie in [0, 2**63): they fit a signed 64-bit record field and a Philox key."""

MIN_TEMPERATURE = 1e-4
"""Below it a draw is the largest logit in all but name, and float32 runs out of range."""

MAX_REPETITION_PENALTY = 100.0
"""Far beyond any use; a bound keeps penalised logits finite."""


class TextLayout(StrEnum):
    """How text reaches the talker: one token per frame (streaming) or all of it in the prompt. Not about audio
    streaming.
    """

    STREAMING = "streaming"
    NON_STREAMING = "non_streaming"


@dataclass(frozen=True)
class DrawParams:
    """How one code is drawn from its logits.

    `temperature` divides the logits; `top_k` 0 keeps all; `top_p` 1.0 keeps all; `do_sample` False takes the
    largest.
    """

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not MIN_TEMPERATURE < self.temperature < float("inf"):
            raise ValueError(
                f"temperature must be > {MIN_TEMPERATURE}, got {self.temperature}; greedy decoding is do_sample=False"
            )
        if self.top_k < 0:
            raise ValueError(f"top_k must be >= 0 (0 keeps every code), got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p}")


@dataclass(frozen=True)
class SamplingParams:
    """Talker and code-predictor draws. Defaults are the published `generation_config.json` values."""

    talker: DrawParams = field(default_factory=DrawParams)
    code_predictor: DrawParams = field(default_factory=DrawParams)
    repetition_penalty: float = 1.05
    min_frames: int = 2
    """End of speech is forbidden before this many frames exist."""

    def __post_init__(self) -> None:
        if not 0 < self.repetition_penalty <= MAX_REPETITION_PENALTY:
            raise ValueError(
                f"repetition_penalty must lie in (0, {MAX_REPETITION_PENALTY:g}], got {self.repetition_penalty}"
            )
        if self.min_frames < 0:
            raise ValueError(f"min_frames must be >= 0, got {self.min_frames}")


@dataclass(frozen=True)
class NamedVoice:
    """A speaker the checkpoint knows by name (CustomVoice), optionally with an instruction on how to speak."""

    speaker: str
    instruct: str | None = None


@dataclass(frozen=True)
class ReferenceVoice:
    """A voice cloned from a clip (Base). With a transcript it is in-context cloning, without one x-vector only."""

    audio: Path
    transcript: str | None = None


@dataclass(frozen=True)
class VoiceDescription:
    """A voice made up from a description in words (VoiceDesign)."""

    instruct: str


Voice = NamedVoice | ReferenceVoice | VoiceDescription


@dataclass(frozen=True)
class SpeechRequest:
    """One utterance to speak.

    `id` is ours and unique within an engine; `utterance_id` is the user's. `language` is a name the checkpoint lists or
    "auto". `text_layout` None takes the checkpoint's default, `max_frames` counts codec frames (80 ms each at 12.5 Hz).
    """

    id: str
    utterance_id: str
    text: str
    voice: Voice
    seed: int
    max_frames: int
    language: str = "auto"
    sampling: SamplingParams = field(default_factory=SamplingParams)
    text_layout: TextLayout | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("request id must not be empty")
        if not 0 <= self.seed < SEED_LIMIT:
            raise ValueError(f"seed must lie in [0, 2**63), got {self.seed}")
        if self.max_frames < 1:
            raise ValueError(f"max_frames must be >= 1, got {self.max_frames}")
