"""One timed round: a closed loop around an engine, whose consumer holds, hashes, checks and counts every chunk.

At most so many requests are in flight, and the next one is handed in the moment a final chunk has been consumed. The
consumer runs on the engine's thread between two of its steps, so what it does to a chunk is little and is timed. Frames
that are lost, repeated, not finite or not as long as they should be are written down as faults of their request; an
engine that loses a whole request, or speaks after its end, breaks the round.

Imports numpy and `ttsbench.core` alone: a machine with a GPU and little else runs it.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol
from zlib import crc32

import numpy as np

from ttsbench.core import AudioChunk, Finish, FinishReason, SpeechRequest

SPOKEN = (FinishReason.STOP, FinishReason.LENGTH)
"""How a request ends that was spoken; its audio counts."""


class Speaker(Protocol):
    """The part of `core.Engine` that a round needs."""

    def submit(self, request: SpeechRequest) -> None: ...

    def chunks(self, stopping: Callable[[], bool] = ...) -> Iterator[AudioChunk]: ...

    def cancel(self, request_id: str) -> bool: ...


@dataclass(frozen=True)
class Observation:
    """One measured request. Times are monotonic nanoseconds, read after the consumer holds the chunk."""

    request_id: str
    utterance_id: str
    seed: int
    handed_in_ns: int
    first_audio_ns: int | None
    """When the consumer held its first samples; None when none came."""
    ended_ns: int
    frames: int
    samples: int
    chunks: int
    finish: Finish
    digest: str
    """CRC-32 of the request's PCM bytes in order, 8 hex digits: equal sound has an equal one."""
    faults: tuple[str, ...]
    """What was wrong with its chunks, in words."""

    @property
    def spoken(self) -> bool:
        """Whether its audio counts: it ended by itself or at its limit, and nothing was wrong with it."""
        return self.finish.reason in SPOKEN and not self.faults

    @property
    def first_audio_s(self) -> float | None:
        """From hand-in to first samples."""
        return None if self.first_audio_ns is None else (self.first_audio_ns - self.handed_in_ns) / 1e9

    @property
    def cause(self) -> str | None:
        """Why its audio does not count, in words; None when it does."""
        if self.spoken:
            return None
        said = ": ".join(part for part in (self.finish.code, self.finish.detail) if part)
        ended = [] if self.finish.reason in SPOKEN else [f"{self.finish.reason.value}{f', {said}' if said else ''}"]
        return "; ".join((*ended, *self.faults))


@dataclass(frozen=True)
class RoundResult:
    """What one round gave."""

    concurrency: int
    rows: int
    """Requests there were to hand in."""
    observations: tuple[Observation, ...]
    """In the order in which requests ended."""
    gaps_ns: tuple[int, ...]
    """Every time between one chunk with samples of a request and its next, in order of arrival."""
    peak: int
    """Most requests in flight at once."""
    consumer_s: float
    """What the consumer spent on chunks, within the wall time."""
    hop_samples: int
    sample_rate_hz: int | None
    """What the chunks say; None when no chunk came."""
    stats: Mapping[str, Any] | None = None
    """What the engine counted during the round, if it counts."""

    @property
    def complete(self) -> bool:
        """Whether every request was handed in and none was cancelled by a stop."""
        cancelled = any(o.finish.reason is FinishReason.CANCELLED for o in self.observations)
        return len(self.observations) == self.rows and not cancelled

    @property
    def bad(self) -> tuple[Observation, ...]:
        """Requests whose audio does not count."""
        return tuple(o for o in self.observations if not o.spoken)

    @property
    def began_ns(self) -> int:
        return min((o.handed_in_ns for o in self.observations), default=0)

    @property
    def wall_s(self) -> float:
        """From the first hand-in to the last end."""
        return (max((o.ended_ns for o in self.observations), default=0) - self.began_ns) / 1e9

    @property
    def audio_s(self) -> float:
        """Audio of the spoken requests."""
        samples = sum(o.samples for o in self.observations if o.spoken)
        return samples / self.sample_rate_hz if self.sample_rate_hz else 0.0

    @property
    def finishes(self) -> dict[str, int]:
        """How many requests ended in which way."""
        return dict(sorted(Counter(o.finish.reason.value for o in self.observations).items()))

    @cached_property
    def digest(self) -> str:
        """One hash of all sound, by utterance and not by order: equal for two rounds that said the same."""
        lines = sorted(f"{o.utterance_id} {o.frames} {o.digest}\n" for o in self.observations)
        return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def run_round(
    engine: Speaker,
    requests: Sequence[SpeechRequest],
    concurrency: int,
    hop_samples: int,
    *,
    stats: Callable[[], Mapping[str, Any]] | None = None,
    stopping: Callable[[], bool] = lambda: False,
    clock: Callable[[], int] = time.monotonic_ns,
) -> RoundResult:
    """Speak `requests`, at most `concurrency` at once. Their ids differ, and from those of earlier rounds too.

    Once `stopping` says so nothing more is handed in and what runs is cancelled: the result is not complete. Raises
    RuntimeError for an engine that breaks its contract: a request without an end, or a chunk of none that runs.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency must be >= 1, got {concurrency}")
    if len({request.id for request in requests}) != len(requests):
        raise ValueError("request ids of a round must differ")
    before = None if stats is None else stats()
    loop = _Loop(engine, deque(requests), concurrency, hop_samples, stopping, clock)
    loop.run()
    return RoundResult(
        concurrency=concurrency,
        rows=len(requests),
        observations=tuple(loop.ended),
        gaps_ns=tuple(loop.gaps_ns),
        peak=loop.peak,
        consumer_s=loop.consumer_ns / 1e9,
        hop_samples=hop_samples,
        sample_rate_hz=loop.sample_rate_hz,
        stats=None if stats is None or before is None else counted_since(before, stats()),
    )


def counted_since(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What counters, nested in maps, have gained; what gained nothing is left out."""
    gains: dict[str, Any] = {}
    for name, value in now.items():
        if isinstance(value, Mapping):
            gains[name] = counted_since(before.get(name, {}), value)
        elif gain := value - before.get(name, 0):
            gains[name] = gain
    return gains


@dataclass(slots=True)
class _Row:
    """A request in flight, and what came of it so far."""

    request: SpeechRequest
    handed_in_ns: int
    first_audio_ns: int | None = None
    held_ns: int = 0
    """When its latest samples came."""
    frames: int = 0
    samples: int = 0
    chunks: int = 0
    crc: int = 0
    first_pcm: np.ndarray | None = None
    first_crc: int = 0
    faults: list[str] = field(default_factory=list)

    def hold(self, pcm: np.ndarray, now: int) -> None:
        """Take first samples. They are kept until the end, to see that they are the receiver's own by then."""
        self.first_audio_ns, self.first_pcm, self.first_crc = now, pcm, crc32(pcm.data)

    def ended(self, finish: Finish, now: int) -> Observation:
        generated, limit = finish.frames_generated, finish.frame_limit
        if generated is not None and generated != self.frames:
            self.faults.append(f"{generated} frames generated, up to {self.frames} emitted")
        if finish.reason is FinishReason.LENGTH and limit is not None and limit != self.frames:
            self.faults.append(f"ended by length after {self.frames} frames, its limit is {limit}")
        if self.first_pcm is not None and crc32(self.first_pcm.data) != self.first_crc:
            self.faults.append("the first samples changed after they were handed over")
        return Observation(
            request_id=self.request.id,
            utterance_id=self.request.utterance_id,
            seed=self.request.seed,
            handed_in_ns=self.handed_in_ns,
            first_audio_ns=self.first_audio_ns,
            ended_ns=now,
            frames=self.frames,
            samples=self.samples,
            chunks=self.chunks,
            finish=finish,
            digest=f"{self.crc:08x}",
            faults=tuple(self.faults),
        )


@dataclass
class _Loop:
    """The closed loop of one round."""

    engine: Speaker
    waiting: deque[SpeechRequest]
    concurrency: int
    hop: int
    stopping: Callable[[], bool]
    clock: Callable[[], int]
    running: dict[str, _Row] = field(default_factory=dict)
    ended: list[Observation] = field(default_factory=list)
    gaps_ns: list[int] = field(default_factory=list)
    peak: int = 0
    consumer_ns: int = 0
    sample_rate_hz: int | None = None

    def run(self) -> None:
        self._hand_in()
        while self.running:
            before = list(self.running)
            self._listen(self.stopping)
            if self.running and self.stopping():
                for request_id in list(self.running):
                    self.engine.cancel(request_id)
                self._listen(lambda: False)
            if lost := [request_id for request_id in before if request_id in self.running]:
                raise RuntimeError(f"the engine ended without a final chunk for {', '.join(lost)}")

    def _hand_in(self) -> None:
        while self.waiting and len(self.running) < self.concurrency and not self.stopping():
            request = self.waiting.popleft()
            self.running[request.id] = _Row(request, self.clock())
            self.peak = max(self.peak, len(self.running))
            self.engine.submit(request)

    def _listen(self, stopping: Callable[[], bool]) -> None:
        clock, running = self.clock, self.running
        for chunk in self.engine.chunks(stopping):
            now = clock()
            row = running.get(chunk.request_id)
            if row is None:
                raise RuntimeError(f"the engine sent chunk {chunk.index} of {chunk.request_id}, which is not running")
            self._take(row, chunk, now)
            if chunk.finish is None:
                self.consumer_ns += clock() - now
                continue
            self.ended.append(row.ended(chunk.finish, now))
            del running[chunk.request_id]
            self.consumer_ns += clock() - now
            self._hand_in()

    def _take(self, row: _Row, chunk: AudioChunk, now: int) -> None:
        """Count, hash and check one chunk that came at `now`."""
        pcm, (start, stop) = chunk.pcm, chunk.frames
        samples = len(pcm)
        if samples:
            if row.first_audio_ns is None:
                row.hold(pcm, now)
            else:
                self.gaps_ns.append(now - row.held_ns)
            row.held_ns = now
            row.crc = crc32(pcm.data, row.crc)
            # A sum of squares is finite exactly when every sample is, and costs a third of asking each one.
            if not math.isfinite(pcm.dot(pcm)):
                row.faults.append(f"samples of frames {start} to {stop} are not finite")
        if start != row.frames or chunk.index != row.chunks or samples != (stop - start) * self.hop:
            self._place_faults(row, chunk)
        if chunk.sample_rate_hz != self.sample_rate_hz:
            self._rate(row, chunk.sample_rate_hz)
        row.frames = stop
        row.samples += samples
        row.chunks += 1

    def _place_faults(self, row: _Row, chunk: AudioChunk) -> None:
        start, stop = chunk.frames
        if start != row.frames:
            row.faults.append(f"frames {start} to {stop} came after {row.frames} frames")
        if chunk.index != row.chunks:
            row.faults.append(f"chunk {chunk.index} came after {row.chunks} chunks")
        if len(chunk.pcm) != (stop - start) * self.hop:
            row.faults.append(f"{len(chunk.pcm)} samples for {stop - start} frames of {self.hop}")

    def _rate(self, row: _Row, rate_hz: int) -> None:
        if self.sample_rate_hz is None:
            self.sample_rate_hz = rate_hz
        else:
            row.faults.append(f"a chunk at {rate_hz} Hz among chunks at {self.sample_rate_hz} Hz")
