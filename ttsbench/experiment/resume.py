"""Going on with a run that was killed or interrupted: only under the same settings, only with rows still open.

A row is done when its record is on disk and does not say cancelled. Whatever else a broken sitting left of a row (a
WAV, trace lines, half a file) is removed before the row runs again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ttsbench.core import Problem
from ttsbench.corpus import Corpus
from ttsbench.experiment.drive import Job
from ttsbench.records import (
    RequestLog,
    RequestRecord,
    RowStatus,
    RunFolder,
    RunManifest,
    TraceRecord,
    read_jsonl,
    write_atomic,
)

SAME = ("tool_version", "code", "profile", "corpus", "checkpoint", "engine", "settings", "software", "hardware")
"""Parts of the manifest that shape the result: rows made under different ones are not one run."""

MAY_DIFFER = frozenset(
    {
        "checkpoint.files",
        "checkpoint.name",
        "checkpoint.source",
        "code.dirty",
        "code.dirty_missing",
        "corpus.name",
        "corpus.path",
        "engine.model",
        "hardware.memory_bytes",
        "hardware.memory_bytes_missing",
        "profile.name",
    }
)
"""Where things lie and what they are called, since what they hold has a hash of its own; and what changes no sample."""


def differences(before: RunManifest, now: RunManifest) -> list[Problem]:
    """Everything that keeps `now` from going on with `before`."""
    old, new = before.model_dump(include=set(SAME)), now.model_dump(include=set(SAME))
    found = [Problem(f"run.json {name}", repr(was), repr(is_now)) for name, was, is_now in _leaves(old, new)]
    hint = "resume under the same settings, or use another --out"
    return [*found[:-1], replace(found[-1], hint=hint)] if found else []


def _leaves(old: Any, new: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(dotted name, old, new) of every leaf that differs between two nested dicts, but for those that may."""
    if name in MAY_DIFFER:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _leaves(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    elif old != new:
        yield name, old, new


def open_jobs(corpus: Corpus, log: RequestLog) -> list[Job]:
    """Rows still to run: without a record, or cancelled, for another attempt. A failed row is charged, not retried."""
    jobs = []
    for index, row in enumerate(corpus.rows):
        record = log.rows.get(index)
        if record is None:
            jobs.append(Job(index, row, 1))
        elif not is_lasting(record):
            jobs.append(Job(index, row, record.attempt + 1))
    return jobs


def is_lasting(record: RequestRecord) -> bool:
    """Whether a record stands when the run is resumed."""
    return record.status is not RowStatus.CANCELLED


def clear_unfinished(folder: RunFolder, jobs: list[Job], log: RequestLog) -> None:
    """Remove what an earlier sitting left of rows that will run again."""
    for leftover in [*folder.path.glob(".*.tmp"), *folder.wav.glob(".*.tmp")]:
        leftover.unlink()
    for job in jobs:
        (folder.wav / f"{job.row.utterance_id}.wav").unlink(missing_ok=True)
    if not folder.trace.exists():
        return
    recorded = {(record.row_index, record.attempt) for record in log.attempts}
    lines = read_jsonl(folder.trace, TraceRecord)
    kept = [line for line in lines.records if (line.row_index, line.attempt) in recorded]
    write_atomic(folder.trace, b"".join(line.model_dump_json().encode() + b"\n" for line in kept))
