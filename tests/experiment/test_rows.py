"""Row seeds and voices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.experiment.engines import PLAN, row
from ttsbench.core import NamedVoice, ReferenceVoice
from ttsbench.experiment.rows import RowClip, row_seed


def test_row_seeds_are_a_function_of_run_seed_and_id() -> None:
    """Goes red when the derivation changes: every recorded run would then speak other noise under its recorded seed."""
    assert row_seed(0, "a") == 2158286327075803111
    assert row_seed(7, "测试-1") == 6147445270456802645
    assert len({row_seed(seed, name) for seed in (0, 1, 7) for name in ("a", "b", "测试-1")}) == 9


def test_attempts_share_their_seed_and_differ_in_their_id() -> None:
    """Goes red when another attempt of a cancelled row draws other noise, or its chunks could be mixed up."""
    first, second = PLAN.request(row("a"), 1), PLAN.request(row("a"), 2)
    assert first.seed == second.seed == row_seed(7, "a")
    assert first.id != second.id


def test_each_row_brings_its_own_clip() -> None:
    """Goes red when a row gets another row's clip, or the transcript is passed on for x-vector cloning."""
    spoken = replace(row("a"), prompt_audio=Path("a.wav"), prompt_text="So it is.")
    in_context = replace(PLAN, voice=RowClip()).request(spoken, 1)
    x_vector = replace(PLAN, voice=RowClip(in_context=False)).request(spoken, 1)
    assert in_context.voice == ReferenceVoice(Path("a.wav"), "So it is.")
    assert x_vector.voice == ReferenceVoice(Path("a.wav"), None)
    assert PLAN.request(spoken, 1).voice == NamedVoice("ann")


def test_in_context_cloning_without_a_transcript_is_a_fault_of_the_row() -> None:
    """Goes red when a missing transcript silently turns in-context cloning into x-vector cloning."""
    silent = replace(row("a"), prompt_audio=Path("a.wav"))
    problem = replace(PLAN, voice=RowClip()).problem(silent)
    assert problem is not None
    assert problem.code == "reference_text_missing"
