"""Typed records of a run, the append-only writer, the reader and the schemas. Imports nothing of the house."""

from ttsbench.records.base import (
    Record,
    canonical_sha256,
    combined_sha256,
    sha256_of,
    utc_now,
)
from ttsbench.records.bench import BenchObservation, BenchPooled, BenchRecord, BenchRound
from ttsbench.records.coverage import Coverage, Heading
from ttsbench.records.environment import CodeRevision, Gpu, Hardware, Placement
from ttsbench.records.layout import RunFolder
from ttsbench.records.manifest import CheckpointRecord, CorpusRecord, RowCounts, RunManifest, RunStatus
from ttsbench.records.reader import (
    JsonLines,
    RecordError,
    RequestLog,
    read_bench,
    read_jsonl,
    read_manifest,
    read_requests,
    read_rows,
    read_scores,
    read_trace,
    read_wer,
)
from ttsbench.records.request import RequestRecord, RowStatus
from ttsbench.records.scores import ScoreSummary, SectionSource
from ttsbench.records.settings import (
    DescribedVoiceRecord,
    DrawSettings,
    EngineRecord,
    NamedVoiceRecord,
    ReferenceVoiceRecord,
    RunSettings,
    SamplingSettings,
    VoiceRecord,
)
from ttsbench.records.trace import TraceRecord
from ttsbench.records.wer import Outcome, WerRecord, WerStats, WerSummary
from ttsbench.records.writable import unwritable
from ttsbench.records.writer import JsonlWriter, write_atomic, write_record

__all__ = [
    "BenchObservation",
    "BenchPooled",
    "BenchRecord",
    "BenchRound",
    "CheckpointRecord",
    "CodeRevision",
    "CorpusRecord",
    "Coverage",
    "DescribedVoiceRecord",
    "DrawSettings",
    "EngineRecord",
    "Gpu",
    "Hardware",
    "Heading",
    "JsonLines",
    "JsonlWriter",
    "NamedVoiceRecord",
    "Outcome",
    "Placement",
    "Record",
    "RecordError",
    "ReferenceVoiceRecord",
    "RequestLog",
    "RequestRecord",
    "RowCounts",
    "RowStatus",
    "RunFolder",
    "RunManifest",
    "RunSettings",
    "RunStatus",
    "SamplingSettings",
    "ScoreSummary",
    "SectionSource",
    "TraceRecord",
    "VoiceRecord",
    "WerRecord",
    "WerStats",
    "WerSummary",
    "canonical_sha256",
    "combined_sha256",
    "read_bench",
    "read_jsonl",
    "read_manifest",
    "read_requests",
    "read_rows",
    "read_scores",
    "read_trace",
    "read_wer",
    "sha256_of",
    "unwritable",
    "utc_now",
    "write_atomic",
    "write_record",
]
