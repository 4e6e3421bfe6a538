"""Runs written by hand: each row as when it was handed over, when its chunks came, and how long they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.records.builders import counts, manifest
from tests.score.runs import spoken, wav_bytes, write_run
from ttsbench.records import JsonlWriter, RequestRecord, RowStatus, RunFolder, RunStatus, TraceRecord
from ttsbench.score.source import RunSource
from ttsbench.score.timing.continuity import ChunkLog

RATE_HZ = 24_000
CLOCK_NS = 7_000_000_000_000
"""What the monotonic clock showed when sitting 0 began; later sittings began anywhere else, as after a reboot."""

Chunks = Sequence[tuple[float, float]]
"""(when it came, how much audio it holds), seconds; when is since the sitting began."""

JUMPY: Chunks = ((0.3, 0.08), (1.5, 7.2))
"""A tiny first chunk, then a long wait."""
STEADY: Chunks = tuple(((3 + 2 * k) / 10, 1.04) for k in range(7))
"""The same audio by the same time, so the same RTF, without a gap."""
ONE_LATE: Chunks = ((0.3, 0.2), (0.65, 3.54), (1.5, 3.54))
"""The same again, with one stall of 150 ms."""


def chunk_log(chunks: Chunks, rate_hz: int = RATE_HZ) -> ChunkLog:
    at_ns = tuple(round(at_s * 1e9) for at_s, _ in chunks)
    return ChunkLog(rate_hz, at_ns, tuple(round(length_s * rate_hz) for _, length_s in chunks), at_ns[-1])


@dataclass
class HandRun:
    """Rows put down one by one."""

    run_dir: Path
    records: list[RequestRecord] = field(default_factory=list)
    lines: list[TraceRecord] = field(default_factory=list)

    def row(
        self,
        index: int,
        submitted_s: float,
        chunks: Chunks,
        *,
        sitting: int = 0,
        attempt: int = 1,
        silence_s: float = 0.0,
        clock_ns: int | None = None,
        **changes: Any,
    ) -> RequestRecord:
        """A row that went well, its final chunk being its last one with audio. `changes` go into its record."""
        lengths = [round(length_s * RATE_HZ) for _, length_s in chunks]
        rng = np.random.default_rng(index)
        audio = rng.uniform(-0.5, 0.5, sum(lengths))
        audio[: round(silence_s * RATE_HZ)] = 0
        times = {
            "submitted_s": submitted_s,
            "first_audio_s": chunks[0][0],
            "finished_s": chunks[-1][0],
            "wav_written_s": chunks[-1][0] + 0.25,
        }
        known: dict[str, Any] = {"sitting": sitting, "attempt": attempt, "chunks": len(chunks)} | times
        record = spoken(self.run_dir, index, "one two", wav_bytes(audio, RATE_HZ), **known | changes)
        self.records.append(record)
        began_ns = CLOCK_NS // (1 + sitting) if clock_ns is None else clock_ns
        for number, ((at_s, _), samples) in enumerate(zip(chunks, lengths, strict=True)):
            last = number == len(chunks) - 1
            self.lines.append(
                TraceRecord(
                    row_index=index,
                    utterance_id=f"u{index}",
                    attempt=attempt,
                    index=number,
                    emitted_at_ns=began_ns + round(at_s * 1e9),
                    start_frame=number,
                    end_frame=number + 1,
                    context_frames=0,
                    chunk_target=1,
                    samples=samples,
                    sample_rate_hz=RATE_HZ,
                    terminal=last,
                    reason=None,
                    reason_missing="not said",
                    finish_reason="stop" if last else None,
                )
            )
        return record

    def open(
        self,
        expected: int | None = None,
        *,
        concurrency: int = 2,
        trace: bool = True,
        stream: bool = True,
        sitting: int = 0,
    ) -> RunSource:
        """The run on disk."""
        rows = max(record.row_index for record in self.records) + 1 if expected is None else expected
        ok = len({record.row_index for record in self.records if record.status is RowStatus.OK})
        made = manifest(rows=rows, status=RunStatus.COMPLETE if ok == rows else RunStatus.INTERRUPTED)
        settings = made.settings.revised(concurrency=concurrency, tracing=trace, stream=stream)
        write_run(
            self.run_dir, self.records, made.revised(settings=settings, sitting=sitting, counts=counts(rows, ok=ok))
        )
        if trace:
            RunFolder(self.run_dir).trace.unlink(missing_ok=True)
            with JsonlWriter(RunFolder(self.run_dir).trace) as writer:
                writer.extend(self.lines)
        return RunSource.open(self.run_dir)
