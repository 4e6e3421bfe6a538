"""One request's emissions against what it should have emitted: every frame once, in order, and one end.

The rules are about absolute frame numbers. An engine that works out what to emit from its current chunk size loses and
repeats frames whenever that size changes, while throughput, similarity and duration all look right; only the numbers
show it. Two things no trace can show: frames swapped inside one emission, and, where the engine does not say how many
frames it generated, frames lost after the last emission.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ttsbench.records.frames import FrameCounts, FrameFault, FrameFinding, Position
from ttsbench.records.request import FinishName
from ttsbench.trace.ranges import FrameSet, Range


class Emission(NamedTuple):
    """One emitted chunk: the new frames [start, end) and how it came."""

    utterance_id: str
    chunk_index: int
    emitted_at_ns: int
    start: int
    end: int
    samples: int
    sample_rate_hz: int
    terminal: bool
    finish_reason: FinishName | None


@dataclass(frozen=True)
class Request:
    """What is known of a request apart from its emissions."""

    utterance_id: str
    attempt: int
    frames_generated: int | None
    """Counted where frames are generated, not where they are emitted; None when the engine does not say."""
    frame_limit: int
    finish_reason: FinishName | None
    samples: int
    """PCM samples that arrived."""
    recorded_rate_hz: int | None
    """Their rate, as the request's record and its WAV have it; None when none arrived."""
    hop_samples: int
    sample_rate_hz: int
    """The engine's rate, which all others must be."""


@dataclass(frozen=True)
class FrameAudit:
    """The counts and every fault, in the order of the emissions within each rule."""

    counts: FrameCounts
    findings: tuple[FrameFinding, ...]


UNSAID = "the engine does not say how many frames it generated"


def audit_request(emissions: Sequence[Emission], request: Request) -> FrameAudit:
    """Audit one attempt's emissions, given in the order they were traced."""
    rules = _Rules(emissions, request)
    findings = tuple(rules.findings())

    def frames(fault: FrameFault) -> int:
        return sum(finding.frames for finding in findings if finding.fault is fault)

    def events(fault: FrameFault) -> int:
        return sum(finding.fault is fault for finding in findings)

    unsaid = UNSAID if request.frames_generated is None else None
    counts = FrameCounts(
        attempts=1,
        emissions=len(emissions),
        frames_emitted=sum(max(0, e.end - e.start) for e in emissions),
        frames_generated=request.frames_generated,
        frames_generated_missing=unsaid,
        frames_missing=frames(FrameFault.MISSING),
        frames_repeated=frames(FrameFault.REPEATED),
        frames_phantom=None if unsaid else frames(FrameFault.PHANTOM),
        frames_phantom_missing=unsaid,
        out_of_order=events(FrameFault.OUT_OF_ORDER),
        gap_events=events(FrameFault.MISSING),
        replay_events=events(FrameFault.REPLAY),
        terminals=sum(e.terminal for e in emissions),
    )
    return FrameAudit(counts, findings)


class _Rules:
    """Each rule looks at all emissions and yields what breaks it."""

    def __init__(self, emissions: Sequence[Emission], request: Request) -> None:
        self.emissions = emissions
        self.request = request
        reached = max([0, *(e.end for e in emissions)])
        self.frames = reached if request.frames_generated is None else request.frames_generated

    def findings(self) -> Iterator[FrameFinding]:
        yield from self._whose()
        yield from self._numbering()
        yield from self._ranges()
        yield from self._coverage()
        yield from self._terminals()
        yield from self._emission_samples()
        yield from self._row_samples()
        yield from self._row_rate()
        yield from self._limit()

    def _whose(self) -> Iterator[FrameFinding]:
        for at, e in enumerate(self.emissions):
            if e.utterance_id != self.request.utterance_id:
                yield self._at(FrameFault.FOREIGN, at, f"of {e.utterance_id}, under {self.request.utterance_id}", e)

    def _numbering(self) -> Iterator[FrameFinding]:
        seen: set[int] = set()
        before, time = -1, 0
        for at, e in enumerate(self.emissions):
            if e.chunk_index in seen:
                yield self._at(FrameFault.INDEX_REPEATED, at, f"index {e.chunk_index} came before")
            elif e.chunk_index != before + 1:
                yield self._at(
                    FrameFault.INDEX_NOT_CONSECUTIVE, at, f"expected index {before + 1}, got {e.chunk_index}"
                )
            if e.emitted_at_ns < time:
                yield self._at(FrameFault.TIME_BACKWARDS, at, f"{time - e.emitted_at_ns} ns before the one before it")
            seen.add(e.chunk_index)
            before, time = e.chunk_index, e.emitted_at_ns

    def _ranges(self) -> Iterator[FrameFinding]:
        start = end = reached = 0
        for at, e in enumerate(self.emissions):
            if e.start != end:
                yield self._at(FrameFault.NOT_CONTIGUOUS, at, f"expected to start at frame {end}, got {e.start}", e)
            if e.start < start:
                yield self._at(FrameFault.OUT_OF_ORDER, at, f"starts at {e.start}, the one before it at {start}", e)
            if e.start < reached:
                yield self._at(FrameFault.REPLAY, at, f"starts at {e.start}, frame {reached} was reached", e)
            if e.end < e.start:
                yield self._at(FrameFault.NEGATIVE_RANGE, at, f"ends at {e.end}, before its start {e.start}")
            if e.end == e.start and not e.terminal:
                yield self._at(FrameFault.EMPTY_EMISSION, at, f"no frame, at {e.start}, and not the terminal")
            start, end, reached = e.start, e.end, max(reached, e.end)

    def _coverage(self) -> Iterator[FrameFinding]:
        seen = FrameSet()
        for at, e in enumerate(self.emissions):
            for part in seen.add(e.start, e.end):
                yield self._at(FrameFault.REPEATED, at, "emitted before", part)
            for part in ((e.start, min(e.end, 0)), (max(e.start, self.frames), e.end)):
                if part[0] < part[1]:
                    yield self._at(FrameFault.PHANTOM, at, f"of {self.frames} frames generated", part)
        for hole in seen.holes(0, self.frames):
            after = next((at for at, e in enumerate(self.emissions) if e.start >= hole[1]), None)
            where: Position = "tail" if after is None else self._position(after)
            yield self._finding(FrameFault.MISSING, after, where, "never emitted", hole)

    def _terminals(self) -> Iterator[FrameFinding]:
        ended = False
        for at, e in enumerate(self.emissions):
            if ended:
                fault = FrameFault.SECOND_TERMINAL if e.terminal else FrameFault.AFTER_TERMINAL
                yield self._at(fault, at, "the request had ended", e)
            ended = ended or e.terminal
            expected = self.request.finish_reason if e.terminal else None
            if e.finish_reason != expected:
                yield self._at(FrameFault.FINISH_MISMATCH, at, f"expected {expected}, got {e.finish_reason}")
        if not ended:
            yield self._finding(FrameFault.NO_TERMINAL, None, "tail", f"none of {len(self.emissions)} is final")

    def _emission_samples(self) -> Iterator[FrameFinding]:
        hop, rate = self.request.hop_samples, self.request.sample_rate_hz
        for at, e in enumerate(self.emissions):
            expected = max(0, e.end - e.start) * hop
            if e.samples != expected:
                detail = f"expected {expected} ({hop} a frame), got {e.samples}"
                yield self._at(FrameFault.EMISSION_SAMPLES, at, detail, e)
            if e.sample_rate_hz != rate:
                yield self._at(FrameFault.SAMPLE_RATE, at, f"expected {rate} Hz, got {e.sample_rate_hz}")

    def _row_samples(self) -> Iterator[FrameFinding]:
        traced, recorded = sum(e.samples for e in self.emissions), self.request.samples
        if traced != recorded:
            yield self._row(FrameFault.ROW_SAMPLES, f"{traced} in the trace, {recorded} in the record")
        expected = self.frames * self.request.hop_samples
        if self.request.frames_generated is not None and recorded != expected:
            yield self._row(FrameFault.ROW_SAMPLES, f"expected {expected} of {self.frames} frames, got {recorded}")

    def _row_rate(self) -> Iterator[FrameFinding]:
        engine, recorded = self.request.sample_rate_hz, self.request.recorded_rate_hz
        if recorded is not None and recorded != engine:
            yield self._row(FrameFault.SAMPLE_RATE, f"expected {engine} Hz, {recorded} in the record")

    def _limit(self) -> Iterator[FrameFinding]:
        limit = self.request.frame_limit
        cut = self.request.finish_reason == "length"
        if self.frames > limit or (cut and self.frames != limit):
            yield self._row(FrameFault.LENGTH_LIMIT, f"{self.frames} frames at a limit of {limit}")

    def _at(self, fault: FrameFault, at: int, detail: str, frames: Emission | Range | None = None) -> FrameFinding:
        if isinstance(frames, Emission):
            frames = (frames.start, frames.end)
        return self._finding(fault, at, self._position(at), detail, frames)

    def _row(self, fault: FrameFault, detail: str) -> FrameFinding:
        return self._finding(fault, None, None, detail)

    def _position(self, at: int) -> Position:
        return "first" if at == 0 else "tail" if at == len(self.emissions) - 1 else "steady"

    def _finding(
        self, fault: FrameFault, at: int | None, position: Position | None, detail: str, frames: Range | None = None
    ) -> FrameFinding:
        start, end = frames or (None, None)
        return FrameFinding(
            fault=fault,
            attempt=self.request.attempt,
            emission=at,
            position=position,
            start_frame=start,
            end_frame=end,
            detail=detail,
        )
