"""What every scorer works from: one run folder as it lies on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ttsbench.records import (
    JsonLines,
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
    def trace(self) -> JsonLines[TraceRecord] | None:
        """Every attempt's emissions in file order; None for a run without a trace."""
        return read_trace(self.folder.path) if self.folder.trace.exists() else None
