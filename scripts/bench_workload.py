"""The rows that engine benchmarks speak: 1,088, as many as Seed-TTS English has, with lengths like its.

    python -m scripts.bench_workload          # writes scripts/bench_workload.csv anew

A row is a prompt of so many talker rows and an utterance of so many codec frames: log-normal around a mean of 57
frames, cut to 15..140, and a prompt of 11 rows and one for every three frames, a tenth more or less. Drawn by the
standard library's own generator, whose stream is the same on every Python; a test pins the file.
"""

from __future__ import annotations

import csv
from dataclasses import astuple, dataclass, fields
from math import exp
from pathlib import Path
from random import Random
from statistics import NormalDist

FILE = Path(__file__).with_suffix(".csv")
ROWS = 1088
SHORTEST, LONGEST = 15, 140
MEDIAN, SPREAD = 52.8, 0.4
"""Of the log-normal distribution of frames: its mean is MEDIAN * exp(SPREAD^2 / 2)."""
HEADER_ROWS, FRAMES_PER_TEXT_ROW = 11, 3.0


@dataclass(frozen=True)
class WorkloadRow:
    """One utterance to come."""

    id: str
    prompt_rows: int
    frames: int
    seed: int


def read_workload(path: Path = FILE) -> tuple[WorkloadRow, ...]:
    """All rows, in order."""
    with path.open(newline="", encoding="ascii") as file:
        return tuple(
            WorkloadRow(row["id"], int(row["prompt_rows"]), int(row["frames"]), int(row["seed"]))
            for row in csv.DictReader(file)
        )


def draw_workload(seed: int = 0) -> tuple[WorkloadRow, ...]:
    """The rows that `seed` gives."""
    random, normal = Random(seed), NormalDist()
    rows = []
    for index in range(ROWS):
        frames = round(MEDIAN * exp(SPREAD * normal.inv_cdf(random.random())))
        frames = min(max(frames, SHORTEST), LONGEST)
        text_rows = round(frames / FRAMES_PER_TEXT_ROW * (0.9 + 0.2 * random.random()))
        rows.append(WorkloadRow(f"row-{index:04d}", HEADER_ROWS + text_rows, frames, int(random.random() * 2**32)))
    return tuple(rows)


def write_workload(path: Path = FILE) -> None:
    """The file of seed 0."""
    with path.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(WorkloadRow)])
        writer.writerows(astuple(row) for row in draw_workload())


if __name__ == "__main__":
    write_workload()
