"""Every text rule gives what the public code gives (scripts/oracle/text_rules.py); edits are counted as by jiwer."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ttsbench.core import InvalidInput
from ttsbench.score.normalise import TEXT_RULES, TextRule, simplified, whisper_english
from ttsbench.score.wer import split_words, word_edits

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "text_rules.json").read_text("utf-8"))
ROWS: list[dict[str, Any]] = GOLDEN["rows"]
JIWER: dict[str, list[dict[str, dict[str, Any]]]] = GOLDEN["jiwer"]


def rule_of(name: str, row: dict[str, Any]) -> TextRule:
    return TEXT_RULES[name][row["language"]]


def test_the_golden_file_holds_every_rule_under_both_jiwers() -> None:
    """Red when a rule, a language or a version of jiwer goes unchecked, or the pairs become few."""
    assert {version.split(".")[0] for version in JIWER} == {"3", "4"}
    assert all(len(column) == len(ROWS) for column in JIWER.values())
    assert all(set(row["normalised"]) == set(TEXT_RULES) for row in ROWS)
    assert {row["language"] for row in ROWS} == {"en", "zh"}
    assert len({(row["language"], *row["texts"]) for row in ROWS}) == len(ROWS) >= 120


@pytest.mark.parametrize("name", TEXT_RULES)
def test_texts_become_what_the_public_code_makes_of_them(name: str) -> None:
    """Red when a rule gains, loses or reorders a step (try `removed`, the squeeze, the case, zhconv on the reference).

    Spaces at the ends are left out of it, and jiwer trims them: F5-TTS puts one before each segment of the transcript.
    """
    different = []
    for row in ROWS:
        rule, (reference, hypothesis) = rule_of(name, row), row["texts"]
        got = [rule.reference(reference).strip(" "), rule.hypothesis(hypothesis).strip(" ")]
        if got != [text.strip(" ") for text in row["normalised"][name]]:
            different.append((row["trap"], got, row["normalised"][name]))
    assert not different


@pytest.mark.parametrize("version", JIWER)
@pytest.mark.parametrize("name", TEXT_RULES)
def test_edits_and_wer_are_those_of_either_jiwer(name: str, version: str) -> None:
    """Red when words are split or aligned differently, or one version of jiwer counts otherwise.

    1e-9: both are quotients of the same two counts, one of them times 100.
    """
    for row, counts in zip(ROWS, JIWER[version], strict=True):
        rule, (reference, hypothesis), public = rule_of(name, row), row["texts"], counts[name]
        expected = rule.reference(reference)
        if not split_words(expected):
            continue  # jiwer's versions differ there: the row is charged, and never comes to be compared
        edits = word_edits(expected, rule.hypothesis(hypothesis))
        assert edits.wer_pct / 100 == pytest.approx(public["wer"], abs=1e-9), row
        assert (edits.substitutions, edits.deletions, edits.insertions) == (public["S"], public["D"], public["I"]), row
        assert edits.reference_words == public["S"] + public["D"] + public["H"], row


@pytest.mark.parametrize("name", TEXT_RULES)
def test_a_text_that_is_heard_as_it_stands_has_no_errors(name: str) -> None:
    """Red when the two sides of a rule differ for one and the same text.

    In Chinese they differ on purpose where the reference has traditional characters, as they do in the public code.
    """
    for row in ROWS:
        rule = rule_of(name, row)
        for text in row["texts"]:
            same = row["language"] == "en" or simplified.to_simplified(text) == text
            if same and split_words(rule.reference(text)):
                assert word_edits(rule.reference(text), rule.hypothesis(text)).errors == 0, row


def test_a_traditional_reference_is_not_converted() -> None:
    """Red when the conversion is done to both sides: friendlier than the public figures."""
    for rules in TEXT_RULES.values():
        assert rules["zh"].hypothesis("體育") == "体 育" == rules["zh"].reference("体育")
        assert rules["zh"].reference("體育") == "體 育"


@pytest.mark.parametrize(("name", "language", "package"), [
    ("sglang-omni", "en", "openai-whisper==20250625"),
    ("seedtts", "zh", "zhconv==1.4.3"),
])  # fmt: skip
def test_a_missing_or_other_package_is_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, name: str, language: str, package: str
) -> None:
    """Red when another version runs under the same name, when something stands in, or an ImportError gets through."""
    rule, (distribution, version) = TEXT_RULES[name][language], package.split("==")
    module = "whisper.normalizers" if distribution == "openai-whisper" else distribution
    forget(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "version", lambda _: "0.0.1")
        with pytest.raises(InvalidInput, match=f"{package}, got 0.0.1.*pip install {package}"):
            rule.hypothesis("a")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, module, None)
        with pytest.raises(InvalidInput, match=f"pip install {package}"):
            rule.hypothesis("a")
    assert rule.hypothesis("a") == "a"
    assert rule.pinned()["packages"] == [package]
    assert GOLDEN["packages"][distribution] == version


def test_threads_that_come_first_wait_for_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when zhconv's tables are filled outside the lock: a thread may then convert by half a table."""
    loads: list[int] = []
    load = simplified._load.__wrapped__

    def slowly() -> Any:
        loads.append(1)
        time.sleep(0.05)  # long enough for every other thread to come by
        return load()

    monkeypatch.setattr(simplified, "_load", cache(slowly))
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.append(simplified.to_simplified("體育"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["体育"] * 8
    assert len(loads) == 1


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load packages anew for the length of a test."""
    for module, name in ((simplified, "_load"), (whisper_english, "_normaliser")):
        monkeypatch.setattr(module, name, cache(getattr(module, name).__wrapped__))
