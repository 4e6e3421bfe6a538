"""What was asked of the engine and what it said about itself, as plain fields.

The shapes mirror the nouns of `ttsbench.core` (a test compares the field names) without importing them, so that a run
made today can be read where nothing but this package is installed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ttsbench.records.base import Count, Reason, Record, Sha256


class DrawSettings(Record):
    """How one code is drawn from its logits."""

    do_sample: bool
    """False takes the largest logit."""
    temperature: float
    """Divides the logits."""
    top_k: Count
    """Codes kept; 0 keeps all."""
    top_p: float
    """Probability mass kept; 1.0 keeps all."""


class SamplingSettings(Record):
    """Draws of the talker and of the code predictor."""

    talker: DrawSettings
    """Draw of codebook 0."""
    code_predictor: DrawSettings
    """Draw of the other codebooks."""
    repetition_penalty: float
    """Penalty on codes that the talker has already drawn; 1.0 is none."""
    min_frames: Count
    """End of speech is forbidden before this many codec frames exist."""


class NamedVoiceRecord(Record):
    """A speaker the checkpoint knows by name."""

    kind: Literal["named"] = "named"
    """Which kind of voice this is."""
    speaker: str
    """The speaker's name."""
    instruct: str | None
    """How to speak, in words; null when nothing was asked for."""


class ReferenceVoiceRecord(Record):
    """A voice cloned from a clip."""

    kind: Literal["reference"] = "reference"
    """Which kind of voice this is."""
    audio: str
    """The clip's path as the corpus gives it."""
    audio_sha256: Sha256 | None
    """Hash of the clip's bytes."""
    audio_sha256_missing: Reason | None = None
    """Why the hash is null, such as an unreadable clip."""
    transcript: str | None
    """What the clip says (in-context cloning); null for cloning by x-vector only."""


class DescribedVoiceRecord(Record):
    """A voice made up from a description."""

    kind: Literal["description"] = "description"
    """Which kind of voice this is."""
    instruct: str
    """The description."""


VoiceRecord = Annotated[
    NamedVoiceRecord | ReferenceVoiceRecord | DescribedVoiceRecord,
    Field(discriminator="kind"),
]


class EngineRecord(Record):
    """What an engine says about itself."""

    name: str
    """Engine kind, such as native or fake."""
    model: str
    """Model it serves."""
    mode: str
    """Fused or two_stage."""
    sample_rate_hz: Annotated[int, Field(gt=0)]
    """PCM samples per second."""
    hop_samples: Annotated[int, Field(gt=0)]
    """PCM samples per codec frame."""
    num_codebooks: Count
    """Codes per codec frame."""
    max_num_seqs: Count
    """Slots: rows that can run at once."""
    max_model_len: Count
    """Longest sequence, prompt and frames together, in positions."""
    determinism: str
    """Level: none, seeded or batch_invariant."""
    device: str
    """Where it computes."""
    dtype: str
    """Number type of talker and code predictor."""
    codec_dtype: str
    """Number type of the codec."""
    reports_frames: bool
    """Whether chunks carry frame numbers; without them a trace can only be audited on PCM."""
    speakers: tuple[str, ...]
    """Named speakers."""
    languages: tuple[str, ...]
    """Languages it lists."""
    default_sampling: SamplingSettings
    """Sampling used where nothing else is asked for."""
    default_text_layout: str
    """How text reaches the talker where nothing else is asked for."""
    default_max_frames: Count
    """Frame limit where nothing else is asked for."""


class RunSettings(Record):
    """What was asked for, for all rows alike."""

    voice: VoiceRecord | None
    """One voice for every row; null when each row brings its own."""
    language: str
    """Language asked for; auto leaves it to the checkpoint."""
    text_layout: str
    """How text reaches the talker: streaming or non_streaming."""
    sampling: SamplingSettings
    """Draws of the talker and the code predictor."""
    seed: Count
    """The run's seed; each row records the seed derived from it."""
    max_frames: Annotated[int, Field(gt=0)]
    """Frame limit of a row."""
    concurrency: Annotated[int, Field(gt=0)]
    """Most rows in the engine at once."""
    tracing: bool
    """Whether trace.jsonl was written; tracing costs time, so timed rounds are made without."""
    stream: bool
    """True when chunks were taken as they appeared, false when a row's audio was taken whole."""
