"""Seconds that `ttsbench score` takes on a run folder: at first, and again with nothing changed.

    python scripts/bench_score.py RUN --rounds 3

Each round copies the run without its scores and empties the transcript cache, then scores it twice, both times in a
process of its own, so that loading counts. Prints JSON lines; `user_s` is processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = [sys.executable, "-c", "from ttsbench.cli.main import app; app()", "score"]


def timed(run: Path, cache: Path) -> dict[str, float | int]:
    """One scoring. Raises SystemExit with what it said where it did not judge."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, time.monotonic()
    environment = {**os.environ, "TTSBENCH_CACHE": str(cache)}
    done = subprocess.run([*COMMAND, str(run)], capture_output=True, text=True, env=environment, check=False)
    wall = time.monotonic() - began
    if done.returncode not in (0, 4):  # rows that were charged are judged rows
        raise SystemExit(done.stderr)
    user = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return {"wall_s": round(wall, 2), "user_s": round(user, 2), "exit": done.returncode}


def copied(run: Path, folder: Path) -> Path:
    """The run as synth left it."""
    out = folder / "run"
    shutil.copytree(run, out, ignore=shutil.ignore_patterns("scores", "scores.json"))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    rows = sum(1 for _ in (asked.run / "requests.jsonl").open(encoding="utf-8"))
    load = os.getloadavg()[0]
    print(json.dumps({"rows": rows, "cores": os.cpu_count(), "python": platform.python_version(), "load": load}))
    for number in range(asked.rounds):
        with tempfile.TemporaryDirectory() as folder:
            run, cache = copied(asked.run, Path(folder)), Path(folder) / "cache"
            for what in ("first", "again"):
                print(json.dumps({"round": number, "what": what, **timed(run, cache)}), flush=True)


if __name__ == "__main__":
    main()
