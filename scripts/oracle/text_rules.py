"""Goldens of the text rules: what the public evaluators make of every pair in text_pairs.py, and the edits jiwer counts.

Run once under each version of jiwer, in an environment of its own (README.md): a run adds its column to those of the
other versions, or starts afresh where the pairs or anything else have changed.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jiwer
from text_evaluators import EVALUATORS
from text_pairs import CHINESE, ENGLISH, Pair

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "text_rules.json"
PACKAGES = ("openai-whisper", "f5-tts", "vllm-omni", "zhon", "zhconv")


def row(language: str, pair: Pair) -> dict[str, Any]:
    trap, reference, hypothesis = pair
    texts = {name: evaluator(reference, hypothesis, language) for name, evaluator in EVALUATORS.items()}
    return {"language": language, "trap": trap, "texts": [reference, hypothesis], "normalised": texts}


def counted(reference: str, hypothesis: str) -> dict[str, float] | str:
    """What this version of jiwer makes of two normalised texts; its error's name where it refuses."""
    try:
        out = jiwer.process_words(reference, hypothesis)
    except Exception as error:  # whichever it is, it is what the evaluator runs into
        return type(error).__name__
    return {"wer": out.wer, "S": out.substitutions, "D": out.deletions, "I": out.insertions, "H": out.hits}


def main() -> None:
    versions = {name: version(name) for name in PACKAGES}
    rows = [row("en", pair) for pair in ENGLISH] + [row("zh", pair) for pair in CHINESE]
    head = json.loads(json.dumps({"packages": versions, "rows": rows}))
    counts = [{name: counted(*texts) for name, texts in each["normalised"].items()} for each in rows]
    columns = {}
    if GOLDEN.exists():
        golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
        columns = golden["jiwer"] if {name: golden[name] for name in head} == head else {}
    columns[jiwer_version := version("jiwer")] = counts
    lines = {
        "packages": json.dumps(versions),
        "rows": _lines(rows, 1),
        "jiwer": "{" + ",".join(f'\n"{name}": {_lines(columns[name], 1)}' for name in sorted(columns)) + "}",
    }
    GOLDEN.write_text("{" + ",\n".join(f'"{name}": {text}' for name, text in lines.items()) + "}\n", encoding="utf-8")
    print(f"{len(rows)} pairs under {len(EVALUATORS)} rules; jiwer {jiwer_version} beside {sorted(columns)}")


def _lines(values: list[Any], indent: int) -> str:
    """One value a line, so that a change shows as the pairs it changes. ASCII alone: what is invisible stays visible."""
    return "[\n" + ",\n".join(" " * indent + json.dumps(value) for value in values) + "\n]"


if __name__ == "__main__":
    main()
