"""What a row holds is judged row by row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from ttsbench.corpus import CorpusRow, content_problem, text_problem


def row(text: str = "hello", prompt_text: str | None = "said", prompt_audio: Path | None = None) -> CorpusRow:
    return CorpusRow("a", text, prompt_text, prompt_audio, None, line=3)


def code(row: CorpusRow, **needs: bool) -> str | None:
    problem = content_problem(row, **{"needs_reference": False, **needs})
    return None if problem is None else problem.code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "empty_text"),
        (" \t\u3000\xa0", "empty_text"),
        ("……！？", "no_speakable_text"),
        ("—", "no_speakable_text"),
        ("😄👍", "no_speakable_text"),
        ("'", "no_speakable_text"),
    ],
)
def test_texts_without_a_letter_or_digit_cannot_be_spoken(text, expected):
    """Red when only emptiness is tested: an engine makes minutes of noise of a lone full stop."""
    problem = text_problem(text)
    assert problem is not None
    assert problem.code == expected


@pytest.mark.parametrize("text", ["Guys..", "你好", "😄你好😄", "7", "٣", "Ⅷ", "é", "नमस्ते", "[laugh] That is funny."])
def test_letters_and_digits_of_any_script_can_be_spoken(text):
    """Red with a test for ASCII letters, or for letters only."""
    assert text_problem(text) is None


def test_the_text_is_judged_before_the_reference():
    assert code(row(text=""), needs_reference=True) == "empty_text"


def test_a_reference_matters_only_where_it_is_needed(tmp_path):
    absent = row(prompt_audio=tmp_path / "nowhere.wav")
    assert code(absent) is None
    assert code(absent, needs_reference=True) == "reference_missing"
    assert code(row(prompt_audio=None), needs_reference=True) == "reference_missing"


def test_a_bad_reference_is_returned_with_its_code(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(24_000), 24_000)
    assert code(row(prompt_audio=tmp_path / "a.wav"), needs_reference=True) == "reference_silent"
    soundfile.write(tmp_path / "a.wav", np.full(24_000, 0.1), 24_000)
    assert code(row(prompt_audio=tmp_path / "a.wav"), needs_reference=True) is None


def test_a_missing_transcript_does_not_change_the_method_in_silence():
    """Red when words are asked for and none come; dots are none, and an engine would only find out in mid-run."""
    assert code(row(prompt_text=None)) is None
    assert code(row(prompt_text=None), needs_transcript=True) == "reference_text_missing"
    assert code(row(prompt_text=" "), needs_transcript=True) == "reference_text_missing"
    assert code(row(prompt_text="..."), needs_transcript=True) == "reference_text_missing"
    assert code(row(), needs_transcript=True) is None
