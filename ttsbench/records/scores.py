"""scores.json: what every scorer said about one run, and what each of them was shown.

A section belongs to the records and files that it was made from; `sources` says which, so that a section is known to be
stale when they have changed, and need not be made again when they have not.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ttsbench.records.base import Record, Sha256, UtcTime
from ttsbench.records.frames import FramesSummary
from ttsbench.records.pcm import PcmSummary
from ttsbench.records.speaker import SpeakerSummary
from ttsbench.records.timing import TimingSummary
from ttsbench.records.wer import WerSummary


class SectionSource(Record):
    """What one section was made from, and where its rows are."""

    scored_at: UtcTime
    """When."""
    tool_version: str
    """Version of ttsbench that scored."""
    software: dict[str, str]
    """Versions of the packages that the section depends on, by name."""
    inputs_sha256: Sha256
    """Hash of all that was read: records, WAVs and clips as they lay there, code and software."""
    rows_file: str
    """The per-row file, relative to the run folder."""
    rows_sha256: Sha256
    """Hash of the per-row file's bytes."""


class ScoreSummary(Record):
    """scores.json."""

    schema_version: Literal[2] = 2
    """Version of this record kind; history in `ttsbench.records.reader`."""
    kind: Literal["scores"] = "scores"
    """Record kind."""
    wer: dict[str, WerSummary]
    """WER by protocol id; protocols never mix."""
    speaker: SpeakerSummary | None = None
    """Speaker similarity; null when it was not scored, as for every section below."""
    frames: FramesSummary | None = None
    """The frame trace audit."""
    pcm: PcmSummary | None = None
    """What the samples alone tell: repeats, holes, clicks, silence, runaways."""
    timing: TimingSummary | None = None
    """Throughput, latency and continuity."""
    sources: dict[str, SectionSource] = Field(default_factory=dict)
    """By section, WER apart, which names its own sources."""
