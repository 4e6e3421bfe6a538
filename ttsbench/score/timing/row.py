"""One row's times, every one of them a difference on its own sitting's clock."""

from __future__ import annotations

from ttsbench.records import RequestRecord, RowStatus
from ttsbench.records.timing import TimingRow
from ttsbench.score.source import RunSource
from ttsbench.score.timing.continuity import ChunkLog
from ttsbench.score.timing.figures import Figure, as_fields, derive, figure, ratio
from ttsbench.score.timing.silence import leading_silence
from ttsbench.score.timing.sitting import is_measured
from ttsbench.score.timing.window import Window

NO_RECORD = "the row has no record"
ONE_CHUNK = "fewer than two chunks with audio"
_NAMES = TimingRow.model_fields.keys()
FIGURES = tuple(name for name in _NAMES - {"utterance_id", "status"} if f"{name}_missing" in _NAMES)
"""Fields that measuring a row fills in."""


def missing_row(row_index: int) -> TimingRow:
    """A row that the run never got to."""
    return TimingRow.model_validate(
        {"row_index": row_index, "cause": "missing_record"}
        | as_fields(dict.fromkeys(("utterance_id", "status", *FIGURES), NO_RECORD))
    )


def unmeasured_row(record: RequestRecord) -> TimingRow:
    """A row whose times mean nothing: it did not end well, or they are unknown."""
    cause = "untimed" if record.status is RowStatus.OK else record.status.value
    return _row(record, cause, dict.fromkeys(FIGURES, f"the row is not measured: {cause}"))


def measured_row(source: RunSource, record: RequestRecord, log: ChunkLog | str, window: Window | str) -> TimingRow:
    """A row that was spoken to its end. `log` and `window` are reasons where they are unknown."""
    assert record.submitted_s is not None  # of every measured row, as are the next two
    assert record.finished_s is not None
    assert record.duration_s is not None
    e2e_s = record.finished_s - record.submitted_s
    figures: dict[str, Figure] = {
        "audio_s": record.duration_s,
        "e2e_s": e2e_s,
        "rtf_request": e2e_s / record.duration_s,
        "rtfx_request": ratio(record.duration_s, e2e_s, "no time passed"),
        "audio_chunks": record.chunks,
        "in_steady_window": window if isinstance(window, str) else record.submitted_s in window,
    }
    return _row(record, None, figures | _first_audio(source, record, log) | _chunks(log) | _playback(log))


def _row(record: RequestRecord, cause: str | None, figures: dict[str, Figure]) -> TimingRow:
    assert is_measured(record) == (cause is None)
    known = {"row_index": record.row_index, "utterance_id": record.utterance_id, "status": record.status}
    return TimingRow.model_validate(known | {"cause": cause} | as_fields(figures))


def _first_audio(source: RunSource, record: RequestRecord, log: ChunkLog | str) -> dict[str, Figure]:
    submitted_s, rate_hz = record.submitted_s, record.sample_rate_hz
    assert submitted_s is not None
    assert rate_hz is not None
    first = derive(lambda at_s: at_s - submitted_s, figure(record.first_audio_s, record.first_audio_s_missing))
    silent = leading_silence(source.folder.path, record)
    heard = log if isinstance(log, str) else derive(log.heard_after_s, silent)
    silence_s = derive(lambda samples: samples / rate_hz, silent)
    return {
        "first_audio_s": first,
        "leading_silence_s": silence_s,
        "first_audible_s": derive(float.__add__, first, silence_s),
        "first_heard_s": derive(float.__add__, first, heard),
    }


def _chunks(log: ChunkLog | str) -> dict[str, Figure]:
    if isinstance(log, str):
        return dict.fromkeys(("chunk_audio_smallest_s", "chunk_audio_largest_s"), log)
    return {"chunk_audio_smallest_s": min(log.durations_s), "chunk_audio_largest_s": max(log.durations_s)}


def _playback(log: ChunkLog | str) -> dict[str, Figure]:
    names = ("gap_mean_s", "gap_largest_s", "underrun_cumulative_s", "underrun_largest_s", "stalls", "late_chunks")
    if isinstance(log, str):
        return dict.fromkeys(names, log)
    if len(log) < 2:
        return dict.fromkeys(names, ONE_CHUNK)
    gaps_s = log.gaps_s
    values = (
        sum(gaps_s) / len(gaps_s),
        max(gaps_s),
        log.underrun_cumulative_s,
        log.underrun_largest_s,
        log.stalls,
        log.late_chunks,
    )
    return dict(zip(names, values, strict=True))
