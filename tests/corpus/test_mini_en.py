"""The bundled corpus keeps its promises."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ttsbench.assets import asset_folder
from ttsbench.corpus import Corpus, content_problem, load_corpus, load_reference_24k, order

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts" / "make_mini_en"


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus("mini-en")


def test_is_found_by_name_in_the_seed_tts_layout(corpus):
    assert (corpus.name, corpus.locale, len(corpus.rows)) == ("mini-en", "en", 64)
    assert order(corpus.fields) == "id|prompt text|prompt wav|text"
    assert load_corpus(asset_folder("mini_en"), "en").rows == corpus.rows


def test_a_missing_asset_is_an_error_that_names_it():
    with pytest.raises(FileNotFoundError, match="nothing_here"):
        asset_folder("nothing_here")


def test_texts_are_plain(corpus):
    """What the tiny checkpoint can read, and what the official WER rule cannot trip over: no digit, hyphen or name."""
    for row in corpus.rows:
        assert 12 <= len(row.text) <= 88, row.text
        assert 4 <= len(row.text.split()) <= 16, row.text
        assert re.fullmatch(r"[A-Z][a-z']*(,? ([a-z']+|I))*[.?!]", row.text), row.text


def test_texts_are_unique_also_without_case_and_marks(corpus):
    spoken = Counter(re.sub(r"[^a-z ]", "", row.text.lower()) for row in corpus.rows)
    prompts = {re.sub(r"[^a-z ]", "", row.prompt_text.lower()) for row in corpus.rows}
    assert len(spoken) == 64
    assert not prompts & set(spoken)


def test_texts_ask_and_exclaim_too(corpus):
    marks = Counter(row.text[-1] for row in corpus.rows)
    assert marks["?"] >= 10
    assert marks["!"] >= 4


def test_texts_are_the_committed_candidates(corpus):
    """Red when the list is edited by hand: sentences come from the script's rules or not at all."""
    candidates = set((SCRIPTS / "candidates.txt").read_text(encoding="utf-8").splitlines())
    assert {row.text for row in corpus.rows} <= candidates


def test_clips_take_turns_and_ids_say_which(corpus):
    assert set(Counter(row.prompt_audio for row in corpus.rows).values()) == {8}
    for number, row in enumerate(corpus.rows, start=1):
        assert row.utterance_id == f"{row.prompt_audio.stem}-{number:03d}"
    assert len({row.prompt_audio for row in corpus.rows[:8]}) == 8


def test_clips_say_what_the_script_had_them_say(corpus):
    said = dict(line.split("|") for line in (SCRIPTS / "clip_texts.txt").read_text(encoding="utf-8").splitlines())
    assert {row.prompt_audio.stem: row.prompt_text for row in corpus.rows} == said


def test_every_row_can_be_run(corpus):
    assert [content_problem(row, needs_reference=True, needs_transcript=True) for row in corpus.rows] == [None] * 64


def test_clips_are_24_khz_mono_neither_silent_nor_clipped(corpus):
    for path in {row.prompt_audio for row in corpus.rows}:
        info = soundfile.info(path)
        assert (info.samplerate, info.channels, info.subtype) == (24_000, 1, "PCM_16"), path
        assert 4 <= info.duration <= 6, path
        samples = load_reference_24k(path)
        # -3 dBFS, to the rounding of 16 bits; clean speech lies some 20 dB below its peak.
        assert np.abs(samples).max() == pytest.approx(10 ** (-3 / 20), abs=1e-4), path
        assert np.sqrt(np.mean(samples**2)) > 0.03, path


def test_the_clips_stay_small(corpus):
    sizes = [path.stat().st_size for path in corpus.path.parent.rglob("*.wav")]
    assert len(sizes) == 8
    assert sum(sizes) < 3_000_000


def test_the_readme_gives_the_hash_of_the_list(corpus):
    """Red when the list changes and its description does not."""
    assert corpus.sha256 in (asset_folder("mini_en") / "README.md").read_text(encoding="utf-8")
