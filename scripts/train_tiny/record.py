"""What a checkpoint ships about its own making: sources, licences, seeds, the pieces with their times, final figures.

    python -m scripts.train_tiny.record --run RUN --text TEXT --machine "2 x NVIDIA H200, torch 2.11.0" \\
        --commit 0123abc OUT.json

Everything but the machine and the commit is read off what the pieces wrote: `times.json` and `codes.json`, the last
line of each log, `text.json`. Options that are not given have the defaults of that commit. Folders are left out, so
the record says the same wherever they lay.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.train_tiny.teacher_pack import MODEL_SHA256

TEACHER = {
    "model": "Kokoro-82M v1.0, int8 export kokoro-v1.0.int8.onnx",
    "sha256": MODEL_SHA256,
    "voices": "style tables of kokoro-js 1.2.1",
    "licence": "weights and voices Apache-2.0 (hexgrad), ONNX export MIT",
}
FOLDERS = {"text", "teacher", "scratch", "out", "run", "codes", "codec", "decoder", "encoder", "start", "speaker"}
"""Options that name files and folders."""


def options(command: Sequence[str]) -> dict[str, str | list[str]]:
    """Options of a command by name, FOLDERS left out; a flag has no values."""
    found: dict[str, list[str]] = {}
    for word in command:
        if word.startswith("--"):
            found[word[2:]] = []
        elif found:
            found[next(reversed(found))].append(word)
    return {name: v[0] if len(v) == 1 else v for name, v in found.items() if name not in FOLDERS}


def pieces(run: Path) -> list[dict[str, Any]]:
    """Each piece that ended well: seconds, options, and the last line of its log when it keeps one."""
    result = []
    for entry in json.loads((run / "times.json").read_text(encoding="utf-8")):
        if entry["exit"] != 0:
            continue
        piece = {"piece": entry["piece"], "seconds": entry["seconds"], "options": options(entry["command"][2:])}
        log = run / f"{entry['piece']}.jsonl"
        if log.exists():
            last = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
            piece["figures"] = {name: value for name, value in last.items() if name not in ("piece", "progress")}
        result.append(piece)
    return result


def record(run: Path, text: Path, machine: str, commit: str) -> dict[str, Any]:
    """The whole record. Raises FileNotFoundError for a file that a finished sitting has."""
    codes = run / "codes.json"
    return {
        "made": datetime.now(UTC).date().isoformat(),
        "machine": machine,
        "commit": commit,
        "teacher": TEACHER,
        "text": json.loads((text / "text.json").read_text(encoding="utf-8")),
        "codes": json.loads(codes.read_text(encoding="utf-8")) if codes.exists() else None,
        "codes_missing": None if codes.exists() else "the codec of an earlier sitting was kept",
        "pieces": pieces(run),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--machine", required=True, help="GPUs and versions, as a reader wants to know them")
    parser.add_argument("--commit", required=True, help="of ttsbench, whose pieces ran")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    made = record(args.run, args.text, args.machine, args.commit)
    args.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
