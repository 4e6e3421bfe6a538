"""The training record: what ended well, without the paths of one machine."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.train_tiny.record import options, record


def test_paths_stay_out_and_values_stay_in() -> None:
    """Red when paths are kept, or when the values of an option with several are lost."""
    command = ["--text", "/somewhere/text", "--hours", "50.0", "--lengths", "96", "128", "--compile"]
    assert options(command) == {"hours": "50.0", "lengths": ["96", "128"], "compile": []}


def test_a_record_holds_every_piece_that_ended_well(tmp_path: Path) -> None:
    """Red when a failed attempt is counted, or when another line than the last is taken."""
    times = [
        {"piece": "decoder", "command": ["-m", "x", "--seconds", "330"], "seconds": 12.5, "exit": 1},
        {"piece": "decoder", "command": ["-m", "x", "--seconds", "330"], "seconds": 343.5, "exit": 0},
    ]
    lines = [{"piece": "decoder", "step": 1, "mel": 0.9}, {"piece": "decoder", "step": 9, "mel": 0.1}]
    (tmp_path / "times.json").write_text(json.dumps(times))
    (tmp_path / "codes.json").write_text('{"fitted": {}}')
    (tmp_path / "decoder.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    (tmp_path / "text.json").write_text('{"seed": 1}')
    made = record(tmp_path, tmp_path, "a machine")
    assert made["pieces"] == [
        {"piece": "decoder", "seconds": 343.5, "options": {"seconds": "330"}, "figures": {"step": 9, "mel": 0.1}}
    ]
    assert made["text"] == {"seed": 1}
    assert "/" not in json.dumps(made["pieces"])
