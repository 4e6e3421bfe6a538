"""Clips as an encoder may hear them: read, checked against their record, at 16 kHz, with speech in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ttsbench.records import ReferenceVoiceRecord, RequestRecord, sha256_of
from ttsbench.score.audio import ASR_RATE_HZ, Audio, AudioFault, audible_windows, decode_wav, for_asr
from ttsbench.score.row_audio import Charge, audio_of
from ttsbench.score.speaker.speech import spoken

MIN_SPEECH_S = 0.3
"""Less holds no syllable, and crashes WavLM."""


class ClipFault(Exception):
    """Why there is nothing to hear a voice in."""

    def __init__(self, cause: str, detail: str) -> None:
        self.cause = cause
        super().__init__(detail)


@dataclass(frozen=True)
class SpokenClip:
    """Mono float32 at 16 kHz: the whole of it [S], and its speech with long pauses out [S']."""

    samples: np.ndarray
    speech: np.ndarray

    @property
    def speech_s(self) -> float:
        return len(self.speech) / ASR_RATE_HZ


def read_row(run_dir: Path, record: RequestRecord) -> SpokenClip:
    """What a row says. Raises ClipFault: its status, or missing_wav, wav_mismatch, undecodable, silent, short."""
    audio = audio_of(run_dir, record)
    if isinstance(audio, Charge):
        raise ClipFault(audio.cause, audio.detail)
    return _clip(audio, record.wav_path or "", "")


def read_reference(voice: ReferenceVoiceRecord) -> SpokenClip:
    """The clip that a row was to sound like. Raises ClipFault: reference_missing, _changed, _undecodable, ..."""
    try:
        data = Path(voice.audio).read_bytes()
    except OSError as error:
        detail = f"{voice.audio}: {error.strerror or error}; put the clip back where the run found it"
        raise ClipFault("reference_missing", detail) from None
    if sha256_of(data) != voice.audio_sha256:
        known = voice.audio_sha256 or f"unknown ({voice.audio_sha256_missing})"
        raise ClipFault("reference_changed", f"{voice.audio} is not the clip that the run used: sha256 was {known}")
    try:
        return _clip(decode_wav(data), voice.audio, "reference_")
    except AudioFault as fault:
        raise ClipFault("reference_undecodable", f"{voice.audio} {fault}") from None


def _clip(audio: Audio, name: str, prefix: str) -> SpokenClip:
    samples = for_asr(audio)
    if not audible_windows(samples):
        raise ClipFault(f"{prefix}silent", f"{name}: {len(samples) / ASR_RATE_HZ:.2f} s of silence")
    clip = SpokenClip(samples, spoken(samples))
    if clip.speech_s < MIN_SPEECH_S:
        detail = f"{name}: {clip.speech_s:.2f} s of speech, at least {MIN_SPEECH_S} s are needed"
        raise ClipFault(f"{prefix}short", detail)
    return clip
