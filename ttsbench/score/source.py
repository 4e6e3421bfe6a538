"""What every scorer works from: one run folder as it lies on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ttsbench.records import (
    JsonLines,
    ReferenceVoiceRecord,
    RequestLog,
    RequestRecord,
    RunFolder,
    RunManifest,
    TraceRecord,
    read_manifest,
    read_requests,
    read_trace,
)


@dataclass(frozen=True)
class RunSource:
    """A run's records, read once."""

    folder: RunFolder
    manifest: RunManifest
    log: RequestLog

    @classmethod
    def open(cls, run_dir: Path) -> RunSource:
        """Raises RecordError or FileNotFoundError for records that cannot be read."""
        return cls(RunFolder(run_dir), read_manifest(run_dir), read_requests(run_dir))

    @property
    def rows_expected(self) -> int:
        return self.manifest.corpus.rows_expected

    def rows(self) -> Iterator[tuple[int, RequestRecord | None]]:
        """Every expected row in order, None where the run left no record."""
        return ((index, self.log.rows.get(index)) for index in range(self.rows_expected))

    @cached_property
    def wavs_sha256(self) -> dict[str, str | None]:
        """Hash of each WAV as it lies there, by its path in the run folder; None for one that cannot be read."""
        paths = {record.wav_path for record in self.log.rows.values() if record.wav_path is not None}
        return {path: readable_sha256(self.folder.path / path) for path in paths}

    @cached_property
    def clips_sha256(self) -> dict[str, str | None]:
        """Likewise of each reference clip, by its recorded path."""
        voices = [record.voice for record in self.log.rows.values()]
        paths = {voice.audio for voice in voices if isinstance(voice, ReferenceVoiceRecord)}
        return {path: readable_sha256(Path(path)) for path in paths}

    @cached_property
    def trace(self) -> JsonLines[TraceRecord] | None:
        """Every attempt's emissions in file order; None for a run without a trace."""
        return read_trace(self.folder.path) if self.folder.trace.exists() else None


def readable_sha256(path: Path) -> str | None:
    """Hash of a file; None for one that cannot be read, which only differs from one that can: a scorer says why."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
