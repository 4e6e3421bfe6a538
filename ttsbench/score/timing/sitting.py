"""One sitting of a run: the attempts it made, all on one clock, and how fast it was.

A resumed run has several. Their clocks have nothing in common, so each is taken by itself, and their sums of audio and
of time are what is pooled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ttsbench.records import RequestRecord, RowStatus
from ttsbench.records.timing import PhaseSpeed, SittingSpeed, SteadySpeed
from ttsbench.score.source import RunSource
from ttsbench.score.timing.continuity import NS_PER_S, ChunkLog
from ttsbench.score.timing.figures import Figure, as_fields, derive, ratio
from ttsbench.score.timing.window import Flight, Window, peak_concurrency, steady_window

NO_WALL = "no time passed in the engine"
NO_AUDIO = "no row is measured"

Logs = Mapping[int, ChunkLog | str]
"""Per row index of a measured row: when its audio appeared, or why that is unknown."""


@dataclass(frozen=True)
class Sitting:
    """Attempts that reached the engine in one sitting, whatever became of them."""

    number: int
    attempts: tuple[RequestRecord, ...]
    measured: tuple[RequestRecord, ...]
    """The attempts whose audio and times count: measured, and the latest of their rows."""
    concurrency: int

    @cached_property
    def flights(self) -> list[Flight]:
        return [Flight(a.submitted_s, a.finished_s) for a in self.attempts if a.submitted_s is not None]

    @cached_property
    def window(self) -> Window | str:
        return steady_window(self.flights, self.concurrency)

    @property
    def wall_s(self) -> Figure:
        """From the first hand-over to the last end of a row."""
        ends = [flight.finished_s for flight in self.flights if flight.finished_s is not None]
        return max(ends) - self._start_s if ends else NO_WALL

    @property
    def batch_wall_s(self) -> Figure:
        """From the first hand-over to the last WAV on disk, or the last end of a row where none was written."""
        written = [attempt.wav_written_s for attempt in self.attempts if attempt.wav_written_s is not None]
        return derive(lambda wall_s: max([wall_s, *(at_s - self._start_s for at_s in written)]), self.wall_s)

    @property
    def _start_s(self) -> float:
        return min(flight.submitted_s for flight in self.flights)


def is_measured(record: RequestRecord) -> bool:
    """Whether a row's times count: it was spoken to its end, and its times are known."""
    return record.status is RowStatus.OK and record.submitted_s is not None and record.finished_s is not None


def sittings_of(source: RunSource) -> list[Sitting]:
    """Sittings in which a row reached the engine, in order."""
    handed_over = [attempt for attempt in source.log.attempts if attempt.submitted_s is not None]
    measured = [record for _, record in source.rows() if record and is_measured(record)]
    return [
        Sitting(
            number,
            tuple(attempt for attempt in handed_over if attempt.sitting == number),
            tuple(record for record in measured if record.sitting == number),
            source.manifest.settings.concurrency,
        )
        for number in sorted({attempt.sitting for attempt in handed_over})
    ]


def sitting_speed(sitting: Sitting, logs: Logs) -> SittingSpeed:
    """What one sitting did, on its own clock."""
    steady = _steady(sitting, logs)
    return SittingSpeed(
        sitting=sitting.number,
        concurrency_peak=peak_concurrency(sitting.flights),
        phase=_phase(sitting.measured, sitting.wall_s, sitting.batch_wall_s),
        steady=None if isinstance(steady, str) else steady,
        steady_missing=steady if isinstance(steady, str) else None,
    )


def pooled_phase(sittings: Sequence[Sitting]) -> PhaseSpeed:
    """All sittings as one: sums divided. One without a wall time adds none."""
    measured = [record for sitting in sittings for record in sitting.measured]
    return _phase(measured, _total([s.wall_s for s in sittings]), _total([s.batch_wall_s for s in sittings]))


def pooled_steady(speeds: Sequence[SittingSpeed]) -> SteadySpeed | str:
    """The sittings' windows as one; the reason of the last sitting where none has a window."""
    windows = [speed.steady for speed in speeds if speed.steady is not None]
    if not windows:
        return (speeds[-1].steady_missing if speeds else None) or NO_WALL
    unknown = next((window.audio_s_missing for window in windows if window.audio_s is None), None)
    audio_s = sum(window.audio_s for window in windows if window.audio_s is not None)
    return _steady_speed(len(windows), sum(window.window_s for window in windows), unknown or audio_s)


def _phase(measured: Sequence[RequestRecord], wall_s: Figure, batch_wall_s: Figure) -> PhaseSpeed:
    audio_s = sum(record.duration_s or 0.0 for record in measured)
    rows: Figure = len(measured) or NO_AUDIO
    audio: Figure = audio_s if measured else NO_AUDIO
    throughput = ratio(audio, wall_s, NO_WALL)
    figures = {
        "wall_s": wall_s,
        "batch_wall_s": batch_wall_s,
        "audio_s_per_wall_s": throughput,
        "requests_per_wall_s": ratio(rows, wall_s, NO_WALL),
        "rtf_system": ratio(wall_s, audio, NO_AUDIO),
        "rtfx_system": throughput,
    }
    return PhaseSpeed.model_validate({"rows": len(measured), "audio_s": audio_s} | as_fields(figures))


def _steady(sitting: Sitting, logs: Logs) -> SteadySpeed | str:
    window = sitting.window
    if isinstance(window, str):
        return window
    return _steady_speed(1, window.length_s, _audio_within(window, sitting.measured, logs))


def _steady_speed(windows: int, window_s: float, audio_s: Figure) -> SteadySpeed:
    figures = {"audio_s": audio_s, "audio_s_per_wall_s": ratio(audio_s, window_s, NO_WALL)}
    return SteadySpeed.model_validate({"windows": windows, "window_s": window_s} | as_fields(figures))


def _audio_within(window: Window, measured: Sequence[RequestRecord], logs: Logs) -> Figure:
    """Audio of chunks that appeared in the window, or why that is unknown for a row in flight then."""
    total = 0.0
    for record in measured:
        assert record.submitted_s is not None  # of every measured row, as is the next
        assert record.finished_s is not None
        if record.finished_s <= window.start_s or record.submitted_s >= window.end_s:
            continue
        log = logs[record.row_index]
        if isinstance(log, str):
            return log
        appeared = (record.finished_s - (log.end_ns - at_ns) / NS_PER_S for at_ns in log.at_ns)
        total += sum(length for at_s, length in zip(appeared, log.durations_s, strict=True) if at_s in window)
    return total


def _total(values: Sequence[Figure]) -> Figure:
    known = [value for value in values if not isinstance(value, str)]
    return sum(known) if known else NO_WALL
