"""Goldens of the text rules: what the public evaluators make of every pair in text_pairs.py, and jiwer's counts.

Run once under each version of jiwer, in an environment of its own (README.md): a run adds its column to those of the
other versions, or starts afresh where the pairs or anything else have changed.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jiwer
from text_evaluators import EVALUATORS, Texts
from text_pairs import CHINESE, ENGLISH, Pair

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "text_rules.json"
PACKAGES = ("openai-whisper", "f5-tts", "vllm-omni", "zhon", "zhconv")


def row(language: str, pair: Pair) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pair under every rule: the texts that are compared, and what this version of jiwer counts in them."""
    trap, reference, hypothesis = pair
    answers = {name: evaluator(reference, hypothesis, language) for name, evaluator in EVALUATORS.items()}
    counts = {name: counted(texts) for name, (texts, _) in answers.items()}
    for name, (_, wer) in answers.items():
        assert wer is None or counts[name]["wer"] == wer, f"{name} answers {wer} to {pair}, jiwer {counts[name]}"
    normalised = {name: texts for name, (texts, _) in answers.items()}
    return {"language": language, "trap": trap, "texts": [reference, hypothesis], "normalised": normalised}, counts


def counted(texts: Texts) -> dict[str, Any]:
    """WER and edits; the error's name where this version refuses the texts."""
    try:
        out = jiwer.process_words(*texts)
    except ValueError as error:
        return {"error": type(error).__name__}
    return {"wer": out.wer, "S": out.substitutions, "D": out.deletions, "I": out.insertions, "H": out.hits}


def main() -> None:
    versions = {name: version(name) for name in PACKAGES}
    made = [row("en", pair) for pair in ENGLISH] + [row("zh", pair) for pair in CHINESE]
    rows, counts = [texts for texts, _ in made], [edits for _, edits in made]
    head = json.loads(json.dumps({"packages": versions, "rows": rows}))
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
    """One value a line, so that a change shows as pairs. ASCII alone, so that nothing is invisible."""
    return "[\n" + ",\n".join(" " * indent + json.dumps(value) for value in values) + "\n]"


if __name__ == "__main__":
    main()
