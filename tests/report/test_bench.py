"""The table of timed rounds shows what counts, and says what does not."""

from __future__ import annotations

from tests.records.bench_builder import bench, bench_round, observation, pooled
from ttsbench.records import RunStatus
from ttsbench.report import render_terminal
from ttsbench.report.bench import bench_section


def test_every_load_has_its_figures_and_withheld_ones_say_why() -> None:
    text = render_terminal([bench_section(bench())])
    assert "4.00" in text  # throughput
    assert "0.250" in text  # RTF
    assert "250" in text  # first audio in ms
    assert "31.2" in text  # gap in ms
    assert "n/a (1)" in text
    assert "(1) p99 needs 100 values, there are 2" in text
    assert "1 of 2 rounds count" in text


def test_a_load_without_audio_has_no_figures_but_reasons() -> None:
    silent = pooled(
        audio_s=0.0, audio_s_per_wall_s=0.0, slowest=0.0, fastest=0.0,
        rtf=None, rtf_missing="no row's audio counts",
        first_audio_s=None, first_audio_s_missing="no row has samples that count",
        gap_s=None, gap_s_missing="no row has a second chunk with samples",
    )  # fmt: skip
    text = render_terminal([bench_section(bench(pooled=(silent,)))])
    for reason in ("no row's audio counts", "no row has samples that count", "no row has a second chunk with samples"):
        assert reason in text


def test_what_does_not_count_is_said() -> None:
    """Red when a cut round, a load that was never reached, or rows at their limit go unmentioned."""
    cut = bench_round(1, complete=False, counted=False)
    text = render_terminal(
        [bench_section(bench(status=RunStatus.INTERRUPTED, rounds=(bench_round(0), cut), pooled=()))]
    )
    assert "C2 round 1 was cut short: not counted" in text
    assert "interrupted" in text
    rows = (observation(0, finish_reason="length"), observation(1))
    limited = bench_round(1, peak=1, rows_by_finish={"length": 1, "stop": 1}, observations=rows)
    text = render_terminal([bench_section(bench(rounds=(bench_round(0), limited)))])
    assert "C2 round 1: rows in flight at once, at most: 1" in text
    assert "that ended at their frame limit: 1" in text
