"""Judges what a row holds, one row at a time: a fault here charges that row and leaves its neighbours alone."""

from __future__ import annotations

import unicodedata

from ttsbench.core import RowError
from ttsbench.corpus.reference import read_reference
from ttsbench.corpus.types import CorpusRow


def content_problem(row: CorpusRow, *, needs_reference: bool, needs_transcript: bool = False) -> RowError | None:
    """Why this row cannot be spoken, or None. Codes: those of `text_problem`, then those of the reference.

    `needs_reference`: the voice comes from `prompt_audio`, which is then read and judged as `read_reference` does;
    without one the code is reference_missing. `needs_transcript`: cloning also takes what the clip says; without
    words there the code is reference_text_missing, rather than a silent change of the cloning method.
    """
    problem = text_problem(row.text)
    if problem is None and needs_transcript:
        problem = _transcript_problem(row)
    if problem is None and needs_reference:
        problem = _reference_problem(row)
    return problem


def text_problem(text: str) -> RowError | None:
    """empty_text: nothing but white space. no_speakable_text: no letter and no digit of any script."""
    if not text.strip():
        return RowError("empty_text", "the text is empty")
    if not any(unicodedata.category(character)[0] in "LN" for character in text):
        return RowError("no_speakable_text", f"no letter or digit in {text!r}")
    return None


def _transcript_problem(row: CorpusRow) -> RowError | None:
    if row.prompt_text is None:
        return RowError("reference_text_missing", f"line {row.line} has no prompt text")
    if problem := text_problem(row.prompt_text):
        return RowError("reference_text_missing", f"the prompt text cannot be used: {problem}")
    return None


def _reference_problem(row: CorpusRow) -> RowError | None:
    if row.prompt_audio is None:
        return RowError("reference_missing", f"line {row.line} names no prompt wav")
    try:
        read_reference(row.prompt_audio)
    except RowError as problem:
        return problem
    return None
