"""A row that says its prompt's words, or another row's, is in the scores and in the report, by number."""

from __future__ import annotations

from pathlib import Path

from tests.score.runs import FakeAsr, fake_protocol, spoken, write_run
from ttsbench.records import ReferenceVoiceRecord, read_manifest, read_scores
from ttsbench.report import render_terminal, score_table
from ttsbench.score import score_under

PROMPTS = ("the ferry leaves from the north side", "my aunt keeps a secret diary", None)
TEXT = "one two three four"


def run_of(folder: Path, prompts: tuple[str | None, ...]) -> Path:
    voices = [
        ReferenceVoiceRecord(audio=f"{row}.wav", audio_sha256="0" * 64, transcript=prompt)
        for row, prompt in enumerate(prompts)
    ]
    return write_run(folder, [spoken(folder, row, TEXT, voice=voice) for row, voice in enumerate(voices)])


def test_words_of_a_prompt_at_the_head_are_a_leak(tmp_path: Path) -> None:
    """The end of its own prompt, and a stretch of another row's. Red when the prompts are not those of the records, or
    the target's own words count."""
    heard: dict[int, str | Exception] = {0: f"north side {TEXT}", 1: TEXT, 2: f"aunt keeps a secret {TEXT}"}
    run = run_of(tmp_path, PROMPTS)
    score_under(run, fake_protocol(FakeAsr(heard)))
    summary = read_scores(run)
    leaks = summary.wer["fake-1"].prompt_leaks
    assert leaks is not None
    assert [(leak.row_index, leak.prompt_row_index, leak.own) for leak in leaks] == [(0, 0, True), (2, 1, False)]
    text = render_terminal(score_table(run, summary, read_manifest(run)))
    assert "row 0 begins with words of its own prompt: north side" in text
    assert "row 2 begins with words of the prompt of row 1: aunt keeps a secret" in text


def test_without_known_words_nothing_is_said_of_leaks(tmp_path: Path) -> None:
    """Red when a run that cannot be checked is reported to be without leaks."""
    run = run_of(tmp_path, (None, None))
    score_under(run, fake_protocol(FakeAsr({0: TEXT, 1: TEXT})))
    assert read_scores(run).wer["fake-1"].prompt_leaks is None
