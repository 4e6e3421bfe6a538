"""The figures of an evaluation as tables for the model cards, and the lines that a checkpoint must meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Figures = Mapping[str, Any]
"""Of `evaluate_figures.figures`."""

WER_PCT = {"streaming": 6.0, "non_streaming": 8.0, "x_vector": 20.0, "in_context": 20.0}
"""At most, in the worst seed over all voices. Named voices: below the 8 to 13 % of the first `tiny`, so that falling
back to it is seen. Cloned ones: about what the recogniser makes of espeak-ng, which is barely understood (18 %)."""
LAST_WORD_PCT = 85.0
"""The first `tiny` had 60 to 73 %: its speech drifted behind the text, and the end cut it."""
NAMED_PCT = 90.0
"""Of each named voice's rows, nearest to the mean of their own voice; guessing gives 25."""
CLONED_PCT = {"seen": 90.0, "unseen": 70.0}
"""Of the rows, nearest to their own reference; guessing among 16 gives 6."""


@dataclass(frozen=True)
class Must:
    """One line: a figure and its bound. A figure that is missing does not meet it."""

    name: str
    value: float | None
    bound: float
    at_most: bool

    @property
    def met(self) -> bool:
        return self.value is not None and (self.value <= self.bound if self.at_most else self.value >= self.bound)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "bound": self.bound, "at_most": self.at_most, "met": self.met}


def musts_of_all(manner: str, all_rows: Figures) -> list[Must]:
    """What every way of speaking must meet, over all its voices."""
    return [
        Must(f"{manner}: WER of the worst seed, %", all_rows["wer_pct_worst_seed"], WER_PCT[manner], at_most=True),
        Must(f"{manner}: last word right, %", all_rows["last_word_right_pct"], LAST_WORD_PCT, at_most=False),
        Must(f"{manner}: rows at the length limit", all_rows["rows_at_length_limit"], 0, at_most=True),
        Must(f"{manner}: silent rows", all_rows["silent_rows"], 0, at_most=True),
        Must(f"{manner}: failed rows", all_rows["failed_rows"], 0, at_most=True),
    ]


def musts_of_voice(name: str, group: Figures, bound: float, judges: Sequence[str]) -> list[Must]:
    """Own voice nearest, by each judge."""
    nearest = group["nearest_own_pct"]
    return [Must(f"{name}: own voice nearest ({j}), %", nearest.get(j), bound, at_most=False) for j in judges]


_LINES: tuple[tuple[str, str, str], ...] = (
    ("rows", "rows", "d"),
    ("WER, %", "wer_pct", ".1f"),
    ("WER by seed, %", "wer_pct_by_seed", ".1f"),
    ("last word right, %", "last_word_right_pct", ".0f"),
    ("rows at the length limit", "rows_at_length_limit", "d"),
    ("silent rows", "silent_rows", "d"),
    ("failed rows", "failed_rows", "d"),
    ("duration / teacher's", "duration_ratio", ".3f"),
    ("its deviation", "duration_ratio_sd", ".3f"),
    ("cosine to own voice", "own_cosine", ".3f"),
    ("own voice nearest, %", "nearest_own_pct", ".0f"),
    ("DNSMOS overall", "dnsmos", ".2f"),
    ("level, dBFS", "level_dbfs", ".1f"),
    ("clipped samples", "clipped_samples", "d"),
    ("jumps at frame edges / inside", "edge_ratio", ".2f"),
)


def table(groups: Mapping[str, Figures]) -> str:
    """A markdown table, one column a group. A figure by judge or seed is split into one line or one cell of several."""
    rows = [["", *groups], ["---"] * (len(groups) + 1)]
    for label, key, form in _LINES:
        values = [group[key] for group in groups.values()]
        if key == "wer_pct_by_seed":
            rows.append([label, *(" / ".join(_cell(v, form) for v in value.values()) for value in values)])
        elif isinstance(values[0], dict):
            for judge in sorted({name for value in values for name in value}):
                rows.append([f"{label} ({judge})", *(_cell(value.get(judge), form) for value in values)])
        else:
            rows.append([label, *(_cell(value, form) for value in values)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def must_table(musts: Sequence[Must]) -> str:
    """A markdown table of the lines, with the verdict of each."""
    rows = ["| line | value | bound | |", "| --- | --- | --- | --- |"]
    for must in musts:
        bound = f"{'at most' if must.at_most else 'at least'} {must.bound:g}"
        rows.append(f"| {must.name} | {_cell(must.value, '.1f')} | {bound} | {'met' if must.met else '**not met**'} |")
    return "\n".join(rows)


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
