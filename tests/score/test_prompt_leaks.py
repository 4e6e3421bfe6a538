"""A row that says its prompt's words, or another row's, is in the scores and in the report, by name."""

from __future__ import annotations

from pathlib import Path

from tests.score.runs import FakeAsr, fake_protocol, spoken, write_run
from ttsbench.records import ReferenceVoiceRecord, read_manifest, read_requests, read_scores
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
    assert "u0 begins with words of its own prompt: north side" in text
    assert "u2 begins with words of the prompt of u1: aunt keeps a secret" in text


def test_a_report_names_twenty_leaks_and_counts_the_rest(tmp_path: Path) -> None:
    """Red when every row of a broken run gets a line, or those without one are not told.

    A row whose record is gone goes by its number: red when that is an error.
    """
    run = run_of(tmp_path, PROMPTS[:1] * 23)
    score_under(run, fake_protocol(FakeAsr(dict.fromkeys(range(23), f"north side {TEXT}"))))
    write_run(run, list(read_requests(run).attempts[1:]), read_manifest(run))
    section = score_table(run, read_scores(run), read_manifest(run))[1]
    named = [note for note in section.notes if "of its own prompt" in note]
    assert [note.split(" begins")[0] for note in named] == ["row 0", *(f"u{row}" for row in range(1, 20))]
    assert "3 more begin with words of a prompt: prompt_leaks in scores.json" in section.notes
    assert ("rows leaking a prompt", "23", "", "") in section.grids[0].rows


def test_without_known_words_nothing_is_said_of_leaks(tmp_path: Path) -> None:
    """Red when a run that cannot be checked is reported to be without leaks."""
    run = run_of(tmp_path, (None, None))
    score_under(run, fake_protocol(FakeAsr({0: TEXT, 1: TEXT})))
    assert read_scores(run).wer["fake-1"].prompt_leaks is None
