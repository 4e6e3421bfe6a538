"""What a player makes of chunks: by hand, and by the identity that ties the two definitions together."""

from __future__ import annotations

import numpy as np
import pytest

from tests.score.timing.timelines import JUMPY, ONE_LATE, STEADY, Chunks, chunk_log
from ttsbench.score.timing.continuity import ChunkLog


@pytest.mark.parametrize(
    ("chunks", "cumulative_s", "largest_s", "stalls", "late"),
    [
        (JUMPY, 1.12, 1.12, 1, 1),
        (STEADY, 0, 0, 0, 0),
        (ONE_LATE, 0.15, 0.15, 1, 1),
        # Two stalls of 0.5 and 0.25 s: they add up for the player that never pauses, and every chunk after is late.
        (((1, 1), (2.5, 1), (3.75, 1), (4.5, 1), (5.5, 1)), 0.75, 0.5, 2, 4),
        # A late chunk whose buffer saves the next: only the first of the two stalls.
        (((0, 1), (1.5, 10), (9, 1)), 0.5, 0.5, 1, 1),
        # Just in time is in time.
        (((0, 1), (1, 1), (2, 1)), 0, 0, 0, 0),
    ],
)
def test_both_definitions_by_hand(
    chunks: Chunks, cumulative_s: float, largest_s: float, stalls: int, late: int
) -> None:
    """Red when the deficit is measured from the hand-over, durations are taken of the wrong chunk, the two definitions
    are swapped, or a chunk that is just in time counts as late."""
    log = chunk_log(chunks)
    assert (log.underrun_cumulative_s, log.underrun_largest_s) == (cumulative_s, largest_s)
    assert (log.stalls, log.late_chunks) == (stalls, late)


def random_log(rng: np.random.Generator) -> ChunkLog:
    """2 to 40 chunks: bursts that arrive together, long waits, tiny and huge chunks, at any common rate."""
    count = int(rng.integers(2, 41))
    pace = float(rng.choice([0.2, 0.9, 1.0, 1.1, 3.0]))  # arrivals relative to playback
    rate_hz = int(rng.choice([8_000, 16_000, 22_050, 24_000, 44_100]))
    samples = rng.integers(1, rate_hz // 2, count)
    waits_ns = rng.exponential(pace * 1e9 / rate_hz * samples.mean(), count) * rng.integers(0, 2, count)
    at_ns = np.cumsum(waits_ns.astype(np.int64)) + int(rng.integers(0, 2**50))
    return ChunkLog(rate_hz, tuple(at_ns.tolist()), tuple(samples.tolist()), int(at_ns[-1]))


def test_stalls_add_up_to_the_cumulative_deficit_on_20000_random_timelines() -> None:
    """The identity, each time, and exactly: both sides are sums of whole ticks, so there is no rounding to tolerate.

    Red when the deadline of a stalled player is not moved, stalls are counted against the first chunk alone, the
    deficit takes its last lag instead of its largest, or ticks become float seconds too early.
    """
    rng = np.random.default_rng(5)
    stalled = 0
    for _ in range(20_000):
        log = random_log(rng)
        assert sum(log.stall_ticks) == max(0, max(log.lag_ticks))
        assert log.underrun_largest_s <= log.underrun_cumulative_s
        assert log.stalls <= log.late_chunks
        stalled += log.stalls > 1
    assert 4_000 < stalled < 16_000, "the timelines should hold both kinds"


def test_a_start_delay_of_the_cumulative_deficit_is_the_least_that_plays_without_a_gap() -> None:
    """Red when the deficit is anything but what a listener would have to wait. A delayed start is a first chunk that
    holds that much more; one nanosecond less leaves a stall."""
    rng = np.random.default_rng(6)
    for _ in range(200):
        log = random_log(rng)
        rate_hz, at_ns = log.sample_rate_hz, log.at_ns
        deficit_ticks = max(0, max(log.lag_ticks))
        delay_ns = -(-deficit_ticks // rate_hz)
        for shift_ns, gapless in ((delay_ns, True), (delay_ns - 1, False)):
            if shift_ns < 0:
                continue
            late = ChunkLog(rate_hz, (at_ns[0] + shift_ns, *at_ns[1:]), log.samples, log.end_ns)
            assert (max(late.lag_ticks) <= 0) == gapless


def test_gaps_stand_with_the_chunks_durations() -> None:
    """Red when a gap is taken from the hand-over or between every other chunk."""
    log = chunk_log(JUMPY)
    assert log.gaps_s == [1.2]
    assert log.durations_s == [0.08, 7.2]


@pytest.mark.parametrize(
    ("sample", "heard_s"),
    [(0, 0.0), (1_000, 1_000 / 24_000), (1_919, 1_919 / 24_000), (1_920, 1.2), (4_320, 1.3)],
)
def test_what_lies_behind_a_stall_is_heard_after_it(sample: int, heard_s: float) -> None:
    """JUMPY holds 1,920 samples, then 1.12 s of nothing. Red when stalls before the sample are left out, or the stall
    of a chunk is charged to the last sample before it."""
    assert chunk_log(JUMPY).heard_after_s(sample) == pytest.approx(heard_s, abs=1e-12)  # float64 division


def test_one_chunk_has_no_continuity_but_can_be_heard() -> None:
    """Red when a row of one chunk passes for continuous."""
    log = chunk_log(((0.5, 2.0),))
    assert (log.gaps_s, log.stall_ticks) == ([], [])
    assert log.heard_after_s(24_000) == 1
    with pytest.raises(ValueError, match=r"max\(\)"):
        _ = log.underrun_cumulative_s
