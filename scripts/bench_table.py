"""The lines of the benchmarks as tables: for people as they run, in Markdown for docs/measurements.md.

    python -m scripts.bench_table parts before.jsonl after.jsonl
    python -m scripts.bench_table changes base=0.jsonl "packed tails=1.jsonl" ... [--at 1 128]

`parts` takes two files of bench_parts: how near to its floor each part was and is. `changes` takes a series of files of
bench_engine (audio seconds per second; starts pooled) or of bench_parts (a whole step's time), one per change, each
with all the changes before it: what each one brought. A file that holds a measurement more than once gives its median,
but starts of the engine are pooled by their sums; their spread stands beside as they run, for the start is the unit of
replication.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

Lines = Sequence[dict[str, Any]]


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


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the head."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *body])


def parts_table(before: Lines, after: Lines) -> str:
    """A row per part and size that both have: times, the floor, and how much of the time the floor is."""
    then, now = _parts(before), _parts(after)
    if not then.keys() & now.keys():
        raise SystemExit("the two files have no part in common: expected two files of bench_parts")
    rows = [("part", "rows", "before, us", "now, us", "floor, us", "of floor before", "of floor now")]
    for part, count in sorted(then.keys() & now.keys(), key=list(now).index):
        (then_us, then_floor), (us, floor) = then[part, count], now[part, count]
        shares = (_share(then_floor, then_us), _share(floor, us))
        rows.append((part, str(count), _us(then_us), _us(us), "-" if floor is None else _us(floor), *shares))
    return markdown(rows)


def changes_table(series: Sequence[tuple[str, Lines]], sizes: Sequence[int] = (1, 128)) -> str:
    """A row per change: the figure at each size, and by how much it moved from the row before."""
    found = [(name, *_figures(name, lines)) for name, lines in series]
    units = {unit for _, unit, _ in found}
    if len(units) > 1:
        raise SystemExit(f"expected files of one benchmark, got {' and '.join(sorted(units))}")
    at = "C" if units == {ENGINE} else "rows "
    rows = [("change", *(cell for size in sizes for cell in (f"{at}{size}: {', '.join(units)}", "gained")))]
    last: dict[int, float] = {}
    for name, _, figures in found:
        cells = [
            cell for size in sizes for cell in (_number(figures.get(size)), _gain(last.get(size), figures.get(size)))
        ]
        rows.append((name, *cells))
        last |= figures
    return markdown(rows)


ENGINE = "audio-s/s"
STEP = "us a step"


def _figures(name: str, lines: Lines) -> tuple[str, dict[int, float]]:
    """What is measured, and the figure by concurrency, or by rows of a step."""
    pooled = [line for line in lines if line.get("kind") == "pooled"]
    if pooled:
        sums: dict[int, tuple[float, float]] = {}
        for line in pooled:
            audio_s, wall_s = sums.get(line["concurrency"], (0.0, 0.0))
            sums[line["concurrency"]] = audio_s + line["audio_s"], wall_s + line["wall_s"]
        return ENGINE, {size: audio_s / wall_s for size, (audio_s, wall_s) in sums.items()}
    steps = {count: us for (part, count), (us, _) in _parts(lines).items() if part == "step"}
    if not steps:
        raise SystemExit(f"{name}: expected lines of bench_engine or bench_parts, got neither")
    return STEP, steps


def _parts(lines: Lines) -> dict[tuple[str, int], tuple[float, float | None]]:
    """Median time, and floor, by part and rows, in the order of the file. Lines of single kernels are left out."""
    times: dict[tuple[str, int], list[float]] = {}
    floors: dict[tuple[str, int], float | None] = {}
    for line in lines:
        if "part" in line and "kernel" not in line:
            times.setdefault((line["part"], line["rows"]), []).append(line["us"])
            floors[line["part"], line["rows"]] = line["floor_us"]
    return {key: (statistics.median(us), floors[key]) for key, us in times.items()}


def _us(us: float) -> str:
    return f"{us:,.0f}"


def _share(floor_us: float | None, us: float) -> str:
    return "-" if floor_us is None else f"{100 * floor_us / us:.0f} %"


def _number(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:,.0f}" if figure >= 100 else f"{figure:.1f}"


def _gain(before: float | None, now: float | None) -> str:
    """Against the last figure there is; nothing for the first."""
    return "" if before is None or now is None else f"{100 * (now / before - 1):+.1f} %"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines of a benchmark's --json file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("{")]


def main() -> None:
    options = parse(sys.argv[1:])
    if options.table == "parts":
        print(parts_table(read_lines(options.before), read_lines(options.after)))
    else:
        print(changes_table([(name, read_lines(path)) for name, path in options.change], options.at))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = parser.add_subparsers(dest="table", required=True)
    parts = tables.add_parser("parts", help="share of the floor, before and after")
    parts.add_argument("before", type=Path)
    parts.add_argument("after", type=Path)
    changes = tables.add_parser("changes", help="what each change brought")
    changes.add_argument("change", type=named_file, nargs="+", help="name=file, the oldest first")
    changes.add_argument("--at", type=int, nargs="+", default=[1, 128], help="concurrencies, or rows of a step")
    return parser.parse_args(arguments)


def named_file(pair: str) -> tuple[str, Path]:
    """`name=file`; a name may hold an equals sign."""
    name, equals, path = pair.rpartition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"expected name=file, got {pair!r}")
    if not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"no file {path}")
    return name, Path(path)


if __name__ == "__main__":
    main()
