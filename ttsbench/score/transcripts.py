"""Transcripts kept from one scoring to the next, so that no recogniser hears the same audio twice.

One file per recogniser, named by the hash of everything that decides what it hears: what the protocol pins, the audio
handling, the model files, the package versions. Inside, one line per audio file, by its hash. Each line carries a hash
of its own: a line that was damaged is an error with its place, never another text. A torn last line, which a killed
process leaves, is not a line. Two processes may write at once; where both heard the same file, the first line counts.

Beside them stands on which audio the recogniser broke: such audio is never again heard in the usual way, or the next
scoring would give other figures, and no word of the failure.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from ttsbench.core import InvalidInput, Problem
from ttsbench.records import JsonlWriter, canonical_sha256, read_jsonl, unwritable
from ttsbench.records.base import Reason, Record, Sha256

CACHE_VARIABLE = "TTSBENCH_CACHE"
"""Environment variable: the folder that holds what ttsbench caches."""


class TranscriptRecord(Record):
    """One line of a file of transcripts."""

    schema_version: Literal[1] = 1
    """Version of this record kind."""
    kind: Literal["transcript"] = "transcript"
    """Record kind."""
    wav_sha256: Sha256
    """Hash of the audio file."""
    transcript: str
    """What was heard in it; may be empty."""
    line_sha256: Sha256
    """Hash of the two above."""

    @classmethod
    def of(cls, wav_sha256: str, transcript: str) -> Self:
        return cls(wav_sha256=wav_sha256, transcript=transcript, line_sha256=_line_sha256(wav_sha256, transcript))

    @model_validator(mode="after")
    def _is_undamaged(self) -> Self:
        if self.line_sha256 != _line_sha256(self.wav_sha256, self.transcript):
            raise ValueError("the line was damaged: its hash is not that of its content; delete the file to hear anew")
        return self


class FailureRecord(Record):
    """One line of a file of failures."""

    schema_version: Literal[1] = 1
    """Version of this record kind."""
    kind: Literal["asr_failure"] = "asr_failure"
    """Record kind."""
    wav_sha256: Sha256
    """Hash of the audio file on which the recogniser broke."""
    error: Reason
    """What it said."""


def _line_sha256(wav_sha256: str, transcript: str) -> str:
    return canonical_sha256([wav_sha256, transcript])


def read_transcripts(path: Path) -> dict[str, str]:
    """Transcripts by the hash of their audio file. Raises RecordError, or FileNotFoundError."""
    transcripts: dict[str, str] = {}
    for line in read_jsonl(path, TranscriptRecord).records:
        transcripts.setdefault(line.wav_sha256, line.transcript)
    return transcripts


@dataclass(frozen=True)
class TranscriptCache:
    """A folder of such files."""

    folder: Path

    @classmethod
    def default(cls) -> TranscriptCache:
        """$TTSBENCH_CACHE/transcripts, or the folder of that name in the user's cache."""
        if chosen := os.environ.get(CACHE_VARIABLE):
            return cls(Path(chosen).expanduser() / "transcripts")
        user = os.environ.get("XDG_CACHE_HOME")
        return cls((Path(user) if user else Path.home() / ".cache") / "ttsbench" / "transcripts")

    def of(self, recogniser_sha256: str) -> KnownTranscripts:
        """What that recogniser has heard. Raises InvalidInput for a folder that cannot be written to, RecordError for
        a damaged file.
        """
        path = self._file(f"{recogniser_sha256}.jsonl")
        return KnownTranscripts(path, read_transcripts(path) if path.exists() else {})

    def failures_of(self, recogniser_sha256: str) -> KnownFailures:
        """On what it broke. Raises as `of` does."""
        path = self._file(f"{recogniser_sha256}.failures.jsonl")
        lines = read_jsonl(path, FailureRecord).records if path.exists() else ()
        return KnownFailures(path, {line.wav_sha256: line.error for line in reversed(lines)})

    def _file(self, name: str) -> Path:
        if why := unwritable(self.folder):
            hint = f"set {CACHE_VARIABLE} to one"
            raise InvalidInput(Problem(str(self.folder), "a folder that can be written to", why, hint))
        return self.folder / name


@dataclass
class KnownTranscripts:
    """One recogniser's transcripts: those known at the start, and those added since. Without a path, none is kept."""

    path: Path | None = None
    known: dict[str, str] = field(default_factory=dict)

    def get(self, wav_sha256: str) -> str | None:
        return self.known.get(wav_sha256)

    def add(self, wav_sha256: str, transcript: str) -> None:
        """Keep a transcript; when it returns, the line is on disk. Raises OSError. Any thread may call it."""
        if self.path is None:
            return
        _append(self.path, TranscriptRecord.of(wav_sha256, transcript))
        self.known.setdefault(wav_sha256, transcript)


@dataclass(frozen=True)
class KnownFailures:
    """The first error of one recogniser on each audio file, by its hash. Without a path, none is kept."""

    path: Path | None = None
    errors: Mapping[str, str] = field(default_factory=dict)

    def add(self, wav_sha256: str, error: str) -> None:
        """Keep a failure for later scorings; when it returns, the line is on disk. Raises OSError."""
        if self.path is not None:
            _append(self.path, FailureRecord(wav_sha256=wav_sha256, error=error))


def _append(path: Path, line: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path), JsonlWriter(path) as writer:
        writer.append(line)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other thread or process writes `path`: a writer that finds it open is refused, not queued."""
    fd = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
