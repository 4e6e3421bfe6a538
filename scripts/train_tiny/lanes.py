"""Commands in lanes, one a GPU, side by side: each begins when what it needs is there, and runs once.

A piece that ended well leaves the mark `logs/<name>.done`, so lanes that are held again go on where they stopped. One
failure ends all lanes, each after the piece that it is at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.5


class Failed(RuntimeError):
    """A piece ended badly, or cannot begin before the sitting's end."""


@dataclass(frozen=True)
class Piece:
    """One command. `needs` are files that must exist before it starts."""

    name: str
    module: str
    arguments: Callable[[], list[object]]
    needs: tuple[Path, ...] = ()

    def command(self) -> list[str]:
        return [sys.executable, "-m", f"scripts.train_tiny.{self.module}", *map(str, self.arguments())]


class Sitting:
    """Runs lanes of pieces and writes down what each took."""

    def __init__(self, run: Path, ends: float) -> None:
        self.run = run
        self._ends = ends
        self._failed = threading.Event()
        self._lock = threading.Lock()
        (run / "logs").mkdir(parents=True, exist_ok=True)

    @property
    def left_s(self) -> float:
        """Seconds until the sitting's end."""
        return self._ends - time.time()

    def hold(self, lanes: dict[str, list[Piece]]) -> None:
        """Run all lanes at once; a lane's name begins with its GPU. Raises what ended the first lane that failed."""
        with ThreadPoolExecutor(len(lanes)) as pool:
            ended = [pool.submit(self.lane, name.split(".")[0], pieces) for name, pieces in lanes.items()]
        for lane in ended:
            lane.result()

    def lane(self, gpu: str, pieces: list[Piece]) -> None:
        """Run `pieces` in order on one GPU; begins none once any lane has failed. Raises Failed."""
        try:
            for piece in pieces:
                done = self.run / "logs" / f"{piece.name}.done"
                if done.exists():
                    continue
                self._wait(piece)
                if self._failed.is_set():
                    return
                self._run(piece, gpu)
                done.touch()
        except BaseException as error:
            self._failed.set()  # at once: the other lane may wait for a piece that will not come
            self._say(f"{type(error).__name__}: {error}")
            raise

    def _wait(self, piece: Piece) -> None:
        """Until what the piece needs is there, or any lane has failed."""
        while missing := [path for path in piece.needs if not path.exists()]:
            if self._failed.is_set():
                return
            if self.left_s < 0:
                raise Failed(f"the time is up and {piece.name} still waits for {', '.join(map(str, missing))}")
            time.sleep(POLL_S)

    def _run(self, piece: Piece, gpu: str) -> None:
        command = piece.command()
        started = time.time()
        path = self.run / "logs" / f"{piece.name}.log"
        with path.open("a", encoding="utf-8") as log:
            self._say(" ".join(command[2:]))
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu, "PYTHONUNBUFFERED": "1"}
            code = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, check=False
            ).returncode
        seconds = round(time.time() - started, 1)
        self._say(f"{piece.name}: {seconds} s, exit {code}")
        self._note({"piece": piece.name, "command": command[1:], "seconds": seconds, "exit": code, "gpu": gpu})
        if code != 0:
            raise Failed(f"{piece.name} ended with exit {code}; its output is in {path}")

    def _note(self, entry: dict[str, object]) -> None:
        """Add to `times.json`, which is whole at any time."""
        with self._lock:
            times = self.run / "times.json"
            known = json.loads(times.read_text(encoding="utf-8")) if times.exists() else []
            part = times.with_suffix(".part")
            part.write_text(json.dumps([*known, entry], indent=1) + "\n", encoding="utf-8")
            part.replace(times)

    def _say(self, text: str) -> None:
        print(f"[{self.left_s:6.0f} s left] {text}", flush=True)
