"""The pooled lines of an engine benchmark as a table: a row per concurrency and start, and one of all starts together.

Starts are pooled by their sums; their spread stands beside, for the start is the unit of replication.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any


def table(lines: Sequence[dict[str, Any]]) -> str:
    """For people: a row per concurrency and start, and one of all starts together."""
    head: tuple[str, ...] = (
        "C",
        "start",
        "audio-s/s",
        "by round",
        "RTF",
        "first audio ms: mean",
        "p50",
        "p95",
        "p99",
        "gap p99",
        "bad",
    )
    rows = [head]
    pooled = sorted((line for line in lines if line["kind"] == "pooled"), key=lambda line: line["concurrency"])
    for concurrency, group in groupby(pooled, key=lambda line: line["concurrency"]):
        starts = list(group)
        rows += [_table_row(line) for line in starts]
        if len(starts) > 1:
            wall_s, audio_s = sum(line["wall_s"] for line in starts), sum(line["audio_s"] for line in starts)
            rates = [line["audio_s_per_wall_s"] for line in starts]
            spread = f"{min(rates):.1f}-{max(rates):.1f}"
            empty = ("",) * 6
            rows.append((str(concurrency), "all", f"{audio_s / wall_s:.1f}", spread, _rtf(wall_s, audio_s), *empty))
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of one width each, cells to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def kernel_table(lines: Sequence[dict[str, Any]]) -> str:
    """For people: a row per timed case of `scripts.bench_kernels`."""
    head = ("operation", "rows", "case", "us", "torch us", "ratio", "GB/s", "TFLOP/s", "floor us", "of floor")
    return aligned([head, *(_kernel_row(line) for line in lines)])


def _kernel_row(line: dict[str, Any]) -> tuple[str, ...]:
    return (
        line["op"],
        str(line["rows"]),
        line["case"],
        f"{line['us']:.1f}",
        "-" if line["torch_us"] is None else f"{line['torch_us']:.1f}",
        "-" if line["torch_us"] is None else f"{line['times_faster']:.1f}",
        f"{line['gb_per_s']:.0f}",
        f"{line['tflop_per_s']:.1f}" if line["flops"] else "-",
        f"{line['floor_us']:.2f}",
        f"{100 * line['share_of_floor']:.0f} %",
    )


def _table_row(line: dict[str, Any]) -> tuple[str, ...]:
    first, gap, (low, high) = line["first_audio_s"] or {}, line["gap_s"] or {}, line["by_round"]
    return (
        str(line["concurrency"]),
        str(line["start"]),
        f"{line['audio_s_per_wall_s']:.1f}",
        f"{low:.1f}-{high:.1f}",
        _rtf(line["wall_s"], line["audio_s"]),
        *(_ms(first.get(name)) for name in ("mean", "p50", "p95", "p99")),
        _ms(gap.get("p99")),
        str(line["bad_rows"]),
    )


def _rtf(wall_s: float, audio_s: float) -> str:
    """Nothing where nothing was said."""
    return f"{wall_s / audio_s:.5f}" if audio_s else "-"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.1f}"
