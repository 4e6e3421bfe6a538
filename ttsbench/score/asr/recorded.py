"""Transcripts somebody recorded earlier, by the hash of the WAV file: scoring without a recogniser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import JsonValue

from ttsbench.core import InvalidInput, Problem
from ttsbench.records import RecordError
from ttsbench.score.asr import Clip
from ttsbench.score.asr.weights import file_sha256
from ttsbench.score.transcripts import read_transcripts


@dataclass(frozen=True)
class RecordedSpec:
    """A file of transcripts, in the format of the transcript cache."""

    path: Path
    recogniser: str
    """Who heard them, in words."""

    cacheable: ClassVar[bool] = False

    def pinned(self) -> dict[str, JsonValue]:
        return {"engine": "recorded", "recogniser": self.recogniser}

    def found(self) -> dict[str, JsonValue]:
        return {"files": {"transcripts": file_sha256(self._existing())}}

    def versions(self) -> dict[str, str]:
        return {}

    def open(self) -> RecordedTranscriber:
        try:
            return RecordedTranscriber(read_transcripts(self._existing()))
        except RecordError as error:
            raise InvalidInput(Problem(str(self.path), "recorded transcripts", str(error))) from error

    def _existing(self) -> Path:
        if not self.path.is_file():
            raise InvalidInput(Problem(str(self.path), "a file of recorded transcripts", "no such file"))
        return self.path


class RecordedTranscriber:
    """Hears what was recorded, and nothing in a file that was not there."""

    workers = 1

    def __init__(self, transcripts: dict[str, str]) -> None:
        self._transcripts = transcripts

    def transcribe(self, clip: Clip) -> str:
        if clip.wav_sha256 not in self._transcripts:
            raise LookupError(f"no transcript is recorded for a WAV file of sha256 {clip.wav_sha256}")
        return self._transcripts[clip.wav_sha256]
