"""The training record: what ended well, without the paths of one machine."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.train_tiny.record import options, record


def test_paths_stay_out_and_values_stay_in() -> None:
    """Red when folders are kept, bare ones too, when a share is taken for a path, or when values are lost."""
    command = ["--text", "/somewhere/text", "--decoder", "/x/decoder", "--run", "RUN"]
    command += ["--part", "0/2", "--lengths", "96", "128", "--compile"]
    assert options(command) == {"part": "0/2", "lengths": ["96", "128"], "compile": []}


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
    made = record(tmp_path, tmp_path, "a machine", "0123abc")
    assert made["pieces"] == [
        {"piece": "decoder", "seconds": 343.5, "options": {"seconds": "330"}, "figures": {"step": 9, "mel": 0.1}}
    ]
    assert made["text"] == {"seed": 1}
    assert (made["commit"], made["codes_missing"]) == ("0123abc", None)


def test_a_sitting_that_kept_a_codec_has_a_record(tmp_path: Path) -> None:
    """Red when the fit's figures are demanded of it."""
    (tmp_path / "times.json").write_text("[]")
    (tmp_path / "text.json").write_text("{}")
    made = record(tmp_path, tmp_path, "a machine", "0123abc")
    assert made["codes"] is None
    assert made["codes_missing"] == "the codec of an earlier sitting was kept"
