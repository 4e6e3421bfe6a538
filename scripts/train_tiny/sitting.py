"""Everything that needs a GPU, in one sitting on two of them: speech, codes, codec, speaker encoder, both talkers.

    python -m scripts.train_tiny.sitting --text TEXT --teacher TEACHER --scratch SCRATCH --run RUN --minutes 21

Speech never leaves the machine that made it, so the pieces form two lanes, one a GPU, that share only folders:
SCRATCH for speech and codes, RUN for weights, logs and `times.json`. Both talkers train until the time is up. A
sitting that is started again skips the pieces that are done, and each piece goes on from its last checkpoint. `--part
0.1` makes a tenth of the speech and of the training, to try a machine. With one GPU both lanes share it and need
about twice the time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

POLL_S = 0.5


@dataclass(frozen=True)
class Piece:
    """One command. `needs` are files that must exist before it starts."""

    name: str
    module: str
    arguments: Callable[[], list[object]]
    needs: tuple[Path, ...] = ()


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

    def lane(self, gpu: str, pieces: list[Piece]) -> None:
        """Run `pieces` in order on one GPU; stops when any lane has failed."""
        for piece in pieces:
            done = self.run / "logs" / f"{piece.name}.done"
            if done.exists():
                continue
            while not all(path.exists() for path in piece.needs):
                if self._failed.is_set():
                    return
                time.sleep(POLL_S)
            if not self._command(piece, gpu):
                self._failed.set()
                return
            done.touch()

    def _command(self, piece: Piece, gpu: str) -> bool:
        command = [sys.executable, "-m", f"scripts.train_tiny.{piece.module}", *map(str, piece.arguments())]
        started = time.time()
        with (self.run / "logs" / f"{piece.name}.log").open("a", encoding="utf-8") as log:
            print(f"[{self.left_s:6.0f} s left] {' '.join(command[2:])}", flush=True)
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu, "PYTHONUNBUFFERED": "1"}
            code = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, check=False
            ).returncode
        seconds = round(time.time() - started, 1)
        print(f"[{self.left_s:6.0f} s left] {piece.name}: {seconds} s, exit {code}", flush=True)
        with self._lock:
            times = self.run / "times.json"
            known = json.loads(times.read_text(encoding="utf-8")) if times.exists() else []
            part = times.with_suffix(".part")
            entry = {"piece": piece.name, "command": command[1:], "seconds": seconds, "exit": code, "gpu": gpu}
            part.write_text(json.dumps([*known, entry], indent=1) + "\n", encoding="utf-8")
            part.replace(times)
        return code == 0

    def hold(self, lanes: dict[str, list[Piece]]) -> bool:
        """Run all lanes at once. False when a piece failed."""
        threads = [
            threading.Thread(target=self.lane, args=(name.split(".")[0], pieces)) for name, pieces in lanes.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return not self._failed.is_set()


def plan(args: argparse.Namespace, sitting: Sitting) -> tuple[list[Piece], list[Piece]]:
    """The two lanes: named speech and `tiny`; many voices, the codec, the speaker encoder and `tiny-base`."""
    run, part = args.run, args.part
    speech: list[object] = ["--text", args.text, "--teacher", args.teacher, "--out", args.scratch]
    speech += ["--shard-hours", max(0.25, 4 * part)]
    coding: list[object] = ["--scratch", args.scratch, "--codes", run / "codes.safetensors"]
    talker: list[object] = ["--text", args.text, "--scratch", args.scratch, "--out", run, "--compile"]
    codes, encoder, speaker = (run / f"{name}.safetensors" for name in ("codes", "encoder", "speaker"))

    def say(kind: str, hours: float, seconds: float) -> Piece:
        wanted: list[object] = ["--kind", kind, "--hours", hours * part, "--seconds", seconds * part + 20]
        return Piece(f"speech-{kind}", "synthesize", lambda: [*speech, *wanted])

    def rest() -> list[object]:
        return ["--seconds", max(10, round(sitting.left_s - args.reserve_s))]

    hearing: list[object] = ["--teacher", args.teacher, "--scratch", args.scratch, "--out", run]
    hearing += ["--kinds", "many", "reference"]
    named_lane = [
        say("named", args.named_hours, 400),
        Piece("codes-named", "encode_shards", lambda: [*coding, "--kinds", "named"], (codes,)),
        Piece("talker-tiny", "train_talker", lambda: [*talker, "--kind", "tiny", *rest()]),
    ]
    voice_lane = [
        say("many", args.many_hours, 230),
        say("reference", args.reference_hours, 60),
        Piece("codes-fit", "fit_codes", lambda: ["--scratch", args.scratch, "--out", codes]),
        Piece(
            "speaker",
            "train_speaker",
            lambda: [*hearing, "--seconds", args.speaker_s * part],
        ),
        Piece("codes-many", "encode_shards", lambda: [*coding, "--kinds", "many", "named", "reference"]),
        Piece("decoder", "train_decoder", lambda: [*coding, "--run", run, "--seconds", args.decoder_s * part]),
        Piece("encoder", "train_encoder", lambda: [*coding, "--run", run, "--seconds", args.encoder_s * part]),
        Piece(
            "codes-reference",
            "encode_shards",
            lambda: [*coding, "--kinds", "reference", "--encoder", encoder, "--again"],
        ),
        Piece(
            "talker-tiny-base",
            "train_talker",
            lambda: [*talker, "--kind", "tiny-base", "--speaker", speaker, "--lengths", 96, 128, 160, *rest()],
        ),
    ]
    return named_lane, voice_lane


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("text", "teacher", "scratch", "run"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=21.0, help="until both talkers stop")
    parser.add_argument("--part", type=float, default=1.0, help="of the speech and the training of the codec")
    parser.add_argument("--named-hours", type=float, default=100.0)
    parser.add_argument("--many-hours", type=float, default=50.0)
    parser.add_argument("--reference-hours", type=float, default=9.0)
    parser.add_argument("--decoder-s", type=float, default=330.0)
    parser.add_argument("--encoder-s", type=float, default=80.0)
    parser.add_argument("--speaker-s", type=float, default=60.0)
    parser.add_argument("--reserve-s", type=float, default=45.0, help="kept for loading, capture and the last write")
    args = parser.parse_args()
    sitting = Sitting(args.run, time.time() + 60 * args.minutes)
    named, voices = plan(args, sitting)
    second = "1" if torch.cuda.device_count() > 1 else "0"
    if not sitting.hold({"0.named": named, f"{second}.voices": voices}):
        raise SystemExit(f"a piece failed; its output is in {args.run / 'logs'}")


if __name__ == "__main__":
    main()
