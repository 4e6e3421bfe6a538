"""A timed round: who is in flight, where clocks are read, and what a faulty engine cannot hide."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from tests.experiment.engines import HOP, PLAN, ScriptedEngine, chunk, row
from ttsbench.core import AudioChunk, Finish, FinishReason, SpeechRequest
from ttsbench.experiment.load import Observation, RoundResult, counted_since, run_round
from ttsbench.experiment.load_figures import distribution, observation_columns, pooled_figures, round_figures
from ttsbench.score.timing.percentiles import percentile

ROOT = Path(__file__).parents[2]
LENGTH = Finish(FinishReason.LENGTH)


def requests(*names: str) -> list[SpeechRequest]:
    return [PLAN.request(row(name), 1) for name in names]


NAMES = tuple(f"u{i}" for i in range(7))


@dataclass
class Replay:
    """Gives the chunks it was told to, whatever is submitted."""

    script: Sequence[AudioChunk]
    submitted: list[str] = field(default_factory=list)

    def submit(self, request: SpeechRequest) -> None:
        self.submitted.append(request.id)

    def chunks(self, stopping: Callable[[], bool] = lambda: False) -> Iterator[AudioChunk]:
        yield from self.script

    def cancel(self, request_id: str) -> bool:
        return False


def replayed(*script: AudioChunk) -> Observation:
    """The one request of a round in which the engine gives these chunks."""
    result = run_round(Replay(script), requests("u"), 1, HOP)
    (observation,) = result.observations
    return observation


def spoken(index: int, final: bool = False, pcm: np.ndarray | None = None) -> AudioChunk:
    """Chunk `index` of one frame each."""
    made = chunk("u#1", index, (index, index + 1), LENGTH if final else None)
    return made if pcm is None else replace(made, pcm=pcm)


@pytest.mark.parametrize("concurrency", [1, 3, 7, 20])
def test_never_more_than_the_concurrency_are_in_flight(concurrency: int) -> None:
    """Red when a request is handed in before one has ended, or when fewer than allowed are in flight."""
    engine = ScriptedEngine()
    result = run_round(engine, requests(*NAMES), concurrency, HOP)
    assert engine.most_alive == result.peak == min(concurrency, len(NAMES))
    assert engine.submitted == list(NAMES)
    assert result.complete
    assert result.finishes == {"stop": len(NAMES)}


def test_the_next_request_is_handed_in_before_the_engine_goes_on() -> None:
    """Red when hand-ins wait for the generator's end: with its next step the engine must know the new request."""
    log: list[str] = []

    class Watched(ScriptedEngine):
        def submit(self, request: SpeechRequest) -> None:
            log.append(f"+{request.utterance_id}")
            super().submit(request)

        def chunks(self, stopping: Callable[[], bool] = lambda: False) -> Iterator[AudioChunk]:
            for piece in super().chunks(stopping):
                log.append(f"{piece.request_id[:2]}{'.' if piece.final else ''}")
                yield piece

    run_round(Watched(frames=2), requests("u0", "u1", "u2"), 2, HOP)
    assert log == ["+u0", "+u1", "u0", "u1", "u0.", "+u2", "u1.", "u2", "u2."]


class Clock:
    """Says 0, 1000, 2000, ... and tells an engine how often it was asked."""

    def __init__(self) -> None:
        self._ticks = count(0, 1000)
        self.now = -1000

    def __call__(self) -> int:
        self.now = next(self._ticks)
        return self.now


def test_first_audio_is_when_the_consumer_holds_samples() -> None:
    """Red when it is taken from the engine's own stamp (a second there), from a chunk without samples, or before."""
    clock = Clock()
    silent = replace(spoken(0), frames=(0, 0), pcm=np.zeros(0, dtype=np.float32))
    script = [silent, replace(spoken(0), index=1), replace(spoken(1, final=True), index=2)]
    result = run_round(Replay(script), requests("u"), 1, HOP, clock=clock)
    (observation,) = result.observations
    # Asked at the hand-in, then twice a chunk: as it is held, and once it is consumed.
    assert observation.handed_in_ns == 0
    assert observation.first_audio_ns == 3000
    assert observation.ended_ns == 5000
    assert result.gaps_ns == (2000,)
    assert result.consumer_s == pytest.approx(3e-6)
    assert result.wall_s == pytest.approx(5e-6)


def test_every_byte_is_hashed_in_order() -> None:
    """Red when a chunk is left out of the hash, or its order does not count."""
    first, second = (np.arange(4, dtype=np.float32) / 8 + i for i in range(2))
    whole = crc32(second.tobytes(), crc32(first.tobytes()))
    assert replayed(spoken(0, pcm=first), spoken(1, final=True, pcm=second)).digest == f"{whole:08x}"
    assert replayed(spoken(0, pcm=second), spoken(1, final=True, pcm=first)).digest != f"{whole:08x}"


NAN = np.array([0, np.nan, 0, 0], dtype=np.float32)
INFINITE = np.array([0, 0, -np.inf, 0], dtype=np.float32)
FAULTY = {
    "lost frame": ([spoken(0), replace(spoken(2, final=True), index=1)], "frames 2 to 3 came after 1 frames"),
    "repeated frame": (
        [spoken(0), replace(spoken(0), index=1), replace(spoken(1, True), index=2)],
        "frames 0 to 1 came after 1 frames",
    ),
    "lost first frame": ([replace(spoken(1, final=True), index=0)], "frames 1 to 2 came after 0 frames"),
    "lost chunk": ([spoken(0), replace(spoken(1, final=True), index=2)], "chunk 2 came after 1 chunks"),
    "NaN": ([spoken(0, pcm=NAN), spoken(1, final=True)], "samples of frames 0 to 1 are not finite"),
    "infinity": ([spoken(0), spoken(1, final=True, pcm=INFINITE)], "samples of frames 1 to 2 are not finite"),
    "too few samples": ([spoken(0, final=True, pcm=NAN[2:])], "2 samples for 1 frames of 4"),
    "frames that never came": (
        [spoken(0), replace(spoken(1, True), finish=Finish(FinishReason.STOP, frames_generated=3))],
        "3 frames generated, up to 2 emitted",
    ),
    "short of its limit": (
        [replace(spoken(0), finish=Finish(FinishReason.LENGTH, frame_limit=2))],
        "ended by length after 1 frames, its limit is 2",
    ),
    "another rate": (
        [spoken(0), replace(spoken(1, True), sample_rate_hz=48_000)],
        "a chunk at 48000 Hz among chunks at 24000 Hz",
    ),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_fault_is_named_and_its_audio_does_not_count(fault: str) -> None:
    """Red when the check of that name is left out."""
    script, words = FAULTY[fault]
    result = run_round(Replay(script), requests("u"), 1, HOP)
    (observation,) = result.bad
    assert words in observation.faults
    assert words in (observation.cause or "")
    assert result.audio_s == 0
    assert result.complete


def test_samples_that_change_after_they_were_handed_over_are_a_fault() -> None:
    """Red when the first samples are not looked at again: an engine may reuse a buffer that it gave away."""

    class Reusing(Replay):
        def chunks(self, stopping: Callable[[], bool] = lambda: False) -> Iterator[AudioChunk]:
            buffer = np.zeros(HOP, dtype=np.float32)
            for index in range(2):
                buffer[:] = (index + 1) / 4
                yield spoken(index, final=index == 1, pcm=buffer)

    (observation,) = run_round(Reusing(()), requests("u"), 1, HOP).observations
    assert observation.faults == ("the first samples changed after they were handed over",)


def test_a_sound_request_has_no_fault() -> None:
    """Also of 16-bit samples, whose squares do not fit their type."""
    loud = np.full(HOP, -32_768, dtype=np.int16)
    finish = Finish(FinishReason.LENGTH, frames_generated=2, frame_limit=2)
    observation = replayed(spoken(0, pcm=loud), replace(spoken(1, pcm=loud), finish=finish))
    assert (observation.faults, observation.cause) == ((), None)
    assert (observation.frames, observation.samples, observation.chunks) == (2, 2 * HOP, 2)


def test_a_missing_final_chunk_breaks_the_round() -> None:
    with pytest.raises(RuntimeError, match=r"without a final chunk for u#1"):
        replayed(spoken(0))


def test_a_chunk_after_the_final_one_breaks_the_round() -> None:
    with pytest.raises(RuntimeError, match=r"chunk 1 of u#1, which is not running"):
        replayed(spoken(0, final=True), spoken(1))


def test_a_failed_request_says_why_and_the_others_count() -> None:
    """Red when failed audio is counted, or its cause is lost."""
    failed = replace(spoken(1), finish=Finish(FinishReason.FAILED, "broken", "it broke"))
    good = replace(spoken(0, final=True), request_id="v#1")
    result = run_round(Replay([spoken(0), failed, good]), requests("u", "v"), 2, HOP)
    assert [(o.utterance_id, o.cause) for o in result.bad] == [("u", "failed, broken: it broke")]
    assert result.audio_s == HOP / 24_000
    assert result.finishes == {"failed": 1, "length": 1}


def test_a_stop_cancels_what_runs_and_hands_nothing_more_in() -> None:
    """Red when the rest is spoken all the same, or the round calls itself complete."""
    engine = ScriptedEngine()
    asked: list[int] = []

    def stopping() -> bool:
        asked.append(0)
        return len(asked) > 12

    result = run_round(engine, requests(*NAMES), 2, HOP, stopping=stopping)
    assert engine.cancelled
    assert not engine.alive
    assert not result.complete
    assert len(result.observations) == len(engine.submitted) < len(NAMES)


def test_a_round_whose_last_requests_were_cancelled_is_not_complete() -> None:
    """Red when it is enough that every request has its end."""
    asked: list[int] = []

    def stopping() -> bool:
        asked.append(0)
        return len(asked) > 4

    result = run_round(ScriptedEngine(), requests("u0", "u1"), 2, HOP, stopping=stopping)
    assert [o.finish.reason for o in result.observations] == [FinishReason.CANCELLED] * 2
    assert not result.complete


def test_ids_must_differ_and_a_loop_needs_room() -> None:
    with pytest.raises(ValueError, match="ids"):
        run_round(ScriptedEngine(), requests("u", "u"), 1, HOP)
    with pytest.raises(ValueError, match="concurrency"):
        run_round(ScriptedEngine(), requests("u"), 0, HOP)


def observed(name: str, handed_in_s: float, first_s: float, ended_s: float, frames: int = 10) -> Observation:
    handed_in, first, ended = (round(seconds * 1e9) for seconds in (handed_in_s, first_s, ended_s))
    return Observation(
        f"{name}#1", name, 0, handed_in, first, ended, frames, frames * HOP, frames, LENGTH, "00000000", ()
    )


def made(*observations: Observation, gaps_s: Sequence[float] = (), rate_hz: int = 10) -> RoundResult:
    gaps = tuple(round(gap * 1e9) for gap in gaps_s)
    return RoundResult(2, len(observations), observations, gaps, 2, 0.5, HOP, rate_hz, {"steps": 3})


def test_throughput_and_its_inverse_have_names_of_their_own() -> None:
    """4 s of audio in 2 s: throughput 2, RTF 0.5. Wall time is from the first hand-in, not from zero."""
    figures = round_figures(made(observed("a", 1.0, 1.5, 3.0)))
    assert (figures["audio_s"], figures["wall_s"]) == (4.0, 2.0)
    assert (figures["audio_s_per_wall_s"], figures["rtf"]) == (2.0, 0.5)
    assert figures["first_audio_s"]["mean"] == 0.5
    assert figures["stats"] == {"steps": 3}
    assert figures["samples_add_up"]


def test_rounds_are_pooled_by_their_sums() -> None:
    """Red for a mean of rates: 4 s in 1 s and 4 s in 3 s are 2 a second, not 2.67."""
    fast, slow = made(observed("a", 0, 0.5, 1), gaps_s=[1]), made(observed("a", 0, 0.1, 3), gaps_s=[3])
    pooled = pooled_figures([fast, slow])
    assert (pooled["audio_s_per_wall_s"], pooled["by_round"]) == (2.0, [1.33333, 4.0])
    assert (pooled["first_audio_s"]["mean"], pooled["gap_s"]["mean"]) == (0.3, 2.0)


@pytest.mark.parametrize("values", [1, 2, 19, 20, 99, 100, 500])
def test_a_percentile_is_withheld_where_score_would_withhold_it(values: int) -> None:
    """Red when the two rules part."""
    sample = np.linspace(0, 1, values)
    figures = distribution(sample)
    assert figures is not None
    for level in (50, 95, 99):
        judged = percentile(sample, level).value
        told = figures[f"p{level}"]
        assert (told is None) == (judged is None) == (f"p{level}" in figures["withheld"])
        assert told is None or told == pytest.approx(judged, rel=1e-5)


def test_no_values_have_no_distribution() -> None:
    assert distribution([]) is None


def test_two_rounds_that_said_the_same_have_one_digest_in_any_order() -> None:
    one, other = observed("a", 0, 1, 2), observed("b", 0, 1, 2)
    assert made(one, other).digest == made(other, one).digest
    assert made(one, other).digest != made(one, replace(other, digest="00000001")).digest


def test_observations_are_columns_from_the_first_hand_in() -> None:
    columns = observation_columns(made(observed("a", 1.0, 1.5, 3.0), observed("b", 1.25, 2.0, 4.0)))
    assert columns["handed_in_us"] == [0, 250_000]
    assert columns["first_audio_us"] == [500_000, 1_000_000]
    assert {len(column) for column in columns.values()} == {2}


def test_a_machine_with_numpy_alone_can_measure() -> None:
    """Red when the loop, or the room it is in, imports what a bare GPU machine does not have."""
    code = "import sys, ttsbench.experiment.load_figures; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    third_party = set(done.stdout.split()) - set(sys.stdlib_module_names) - {"ttsbench"}
    assert {name for name in third_party if not name.startswith("_")} <= {"numpy", "sitecustomize"}


def test_counters_are_those_of_the_round() -> None:
    """An engine counts from its start. Red when a round reports the running totals, or drops a counter that is new."""
    before = {"steps": {"decode": 7, "mixed": 1}, "graphs": {}}
    now = {"steps": {"decode": 12, "mixed": 1}, "graphs": {"decode:8": 5}}
    assert counted_since(before, now) == {"steps": {"decode": 5}, "graphs": {"decode:8": 5}}
