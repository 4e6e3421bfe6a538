"""From trace lines to the chunk log of one row, or the reason why there is none.

A trace is believed only as far as it agrees with the row's record: same samples, same chunks, one end, same times. What
the engine did wrong with frames is the audit's business; here a trace that contradicts its record just cannot tell when
audio appeared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ttsbench.records import RequestRecord, TraceRecord
from ttsbench.score.source import RunSource
from ttsbench.score.timing.continuity import NS_PER_S, ChunkLog

NO_TRACE = "the run has no trace"
TAKEN_WHOLE = "audio was taken whole"
DISAGREES = "the trace does not agree with the record"
CLOCK_TOLERANCE_S = 1e-6
"""Record and trace tell the same instants. Seconds as float64 are good to 1e-10 s over days; clocks of two processes
differ by far more than a microsecond."""

Lines = Mapping[tuple[int, int], Sequence[TraceRecord]]
"""Trace lines by row index and attempt, in file order."""


def lines_by_attempt(source: RunSource) -> Lines | None:
    """All trace lines of a run; None for a run without a trace."""
    if source.trace is None:
        return None
    grouped: defaultdict[tuple[int, int], list[TraceRecord]] = defaultdict(list)
    for line in source.trace.records:
        grouped[line.row_index, line.attempt].append(line)
    return grouped


def chunk_log(record: RequestRecord, stream: bool, lines: Lines | None) -> ChunkLog | str:
    """When the row's audio appeared, or why that is unknown. `stream` says whether chunks were taken as they came."""
    if not stream:
        return TAKEN_WHOLE
    if lines is None:
        return NO_TRACE
    own = lines.get((record.row_index, record.attempt), ())
    return _log_of(own) if _agree(record, own) else DISAGREES


def _log_of(lines: Sequence[TraceRecord]) -> ChunkLog:
    audio = [line for line in lines if line.samples]
    return ChunkLog(
        sample_rate_hz=audio[0].sample_rate_hz,
        at_ns=tuple(line.emitted_at_ns for line in audio),
        samples=tuple(line.samples for line in audio),
        end_ns=lines[-1].emitted_at_ns,
    )


def _agree(record: RequestRecord, lines: Sequence[TraceRecord]) -> bool:
    audio = [line for line in lines if line.samples]
    times = [line.emitted_at_ns for line in lines]
    if not audio or record.first_audio_s is None or record.finished_s is None:
        return False
    recorded_s, traced_s = record.finished_s - record.first_audio_s, (times[-1] - audio[0].emitted_at_ns) / NS_PER_S
    return (
        sum(line.samples for line in audio) == record.samples
        and len(audio) == record.chunks
        and {line.sample_rate_hz for line in audio} == {record.sample_rate_hz}
        and [line.terminal for line in lines] == [False] * (len(lines) - 1) + [True]
        and times == sorted(times)
        and abs(recorded_s - traced_s) <= CLOCK_TOLERANCE_S
    )
