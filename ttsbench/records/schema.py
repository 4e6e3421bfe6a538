"""JSON Schema of every record kind, exported from the types."""

from __future__ import annotations

from pydantic import JsonValue

from ttsbench.records.base import Record
from ttsbench.records.bench import BenchRecord
from ttsbench.records.frames import FramesRow
from ttsbench.records.manifest import RunManifest
from ttsbench.records.pcm import PcmRow
from ttsbench.records.request import RequestRecord
from ttsbench.records.scores import ScoreSummary
from ttsbench.records.speaker import SpeakerRow
from ttsbench.records.timing import TimingRow
from ttsbench.records.trace import TraceRecord
from ttsbench.records.wer import WerRecord

KINDS: dict[str, type[Record]] = {
    "run": RunManifest,
    "request": RequestRecord,
    "trace": TraceRecord,
    "wer": WerRecord,
    "speaker": SpeakerRow,
    "frames": FramesRow,
    "pcm": PcmRow,
    "timing": TimingRow,
    "scores": ScoreSummary,
    "bench": BenchRecord,
}


def schema_name(kind: str) -> str:
    """`<kind>-v<version>`, the stem of the schema's file and of its example's."""
    return f"{kind}-v{KINDS[kind].model_fields['schema_version'].default}"


def schema_of(kind: str) -> dict[str, JsonValue]:
    """The schema of what is written: every field is there, null or not."""
    schema = KINDS[kind].model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
