"""What the encoder made of a run: a vector for each reference clip, two for each row that can be heard.

A row without usable audio has failed; one whose reference clip is gone or changed is unscored, since that says nothing
about its speech: with the clip back in its place it can be measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ttsbench.records import NamedVoiceRecord, ReferenceVoiceRecord, RequestRecord
from ttsbench.records.settings import VoiceRecord
from ttsbench.records.speaker import SpeakerOutcome
from ttsbench.score.audio import ASR_RATE_HZ
from ttsbench.score.source import RunSource
from ttsbench.score.speaker import clips
from ttsbench.score.speaker.clips import ClipFault
from ttsbench.score.speaker.encoder import SpeakerEncoder

HEAD_S = 2.0


@dataclass(frozen=True)
class Heard:
    """A row that could be heard: unit vectors [D] of the whole and of the first HEAD_S of speech."""

    speech_s: float
    whole: np.ndarray
    head: np.ndarray


@dataclass(frozen=True)
class Unheard:
    """A row, or a clip, that could not."""

    outcome: SpeakerOutcome
    cause: str
    detail: str


class References:
    """The run's different clips, each heard once. All of them are foreign to somebody, those of failed rows too."""

    def __init__(self, source: RunSource, encoder: SpeakerEncoder) -> None:
        self.paths: list[str] = []
        self._numbers: dict[str, int] = {}
        self._faults: dict[str, Unheard] = {}
        heard: list[np.ndarray] = []
        for _, record in source.rows():
            voice = None if record is None else record.voice
            if not isinstance(voice, ReferenceVoiceRecord) or voice_key(voice) in self._numbers.keys() | self._faults:
                continue
            try:
                heard.append(encoder.embed(clips.read_reference(voice).samples))
            except Exception as error:  # whatever goes wrong with a clip, its rows stay in the result, with the reason
                self._faults[voice_key(voice)] = _unscored(error)
            else:
                self._numbers[voice_key(voice)] = len(self.paths)
                self.paths.append(voice.audio)
        self.vectors = np.array(heard)
        """[K, D]"""

    def number(self, voice: VoiceRecord) -> int | None:
        """Which of the clips is the voice's own; None for a voice without one."""
        return self._numbers.get(voice_key(voice))

    def fault(self, voice: VoiceRecord) -> Unheard | None:
        """What keeps the voice's own clip from being heard, if anything does."""
        return self._faults.get(voice_key(voice))


def hear(
    run_dir: Path, record: RequestRecord | None, references: References, encoder: SpeakerEncoder
) -> Heard | Unheard:
    """Listen to one row, whatever state its audio is in."""
    if record is None:
        return Unheard(SpeakerOutcome.MISSING, "missing_record", "the row has no record")
    try:
        clip = clips.read_row(run_dir, record)
    except ClipFault as fault:
        return Unheard(SpeakerOutcome.FAILED, fault.cause, str(fault))
    if without_clip := references.fault(record.voice):
        return without_clip
    head = clip.speech[: round(HEAD_S * ASR_RATE_HZ)]
    try:
        return Heard(clip.speech_s, encoder.embed(clip.samples), encoder.embed(head))
    except Exception as error:  # whatever an encoder raises, the row stays in the result, with the reason
        return _unscored(error)


def voice_key(voice: VoiceRecord) -> str:
    """What makes two rows have one voice: the speaker, the clip's bytes, or the description."""
    if isinstance(voice, NamedVoiceRecord):
        return f"speaker {voice.speaker}"
    if isinstance(voice, ReferenceVoiceRecord):
        return f"clip {voice.audio_sha256 or voice.audio}"
    return f"description {voice.instruct}"


def _unscored(error: Exception) -> Unheard:
    if isinstance(error, ClipFault):
        return Unheard(SpeakerOutcome.UNSCORED, error.cause, str(error))
    return Unheard(SpeakerOutcome.UNSCORED, "encoder_error", f"{type(error).__name__}: {error}")
