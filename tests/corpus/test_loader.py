"""From what a user types to a list file and a locale."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ttsbench.core import InvalidInput
from ttsbench.corpus import load_corpus


def message(path_or_name: str | Path, locale: str | None = None) -> str:
    with pytest.raises(InvalidInput) as caught:
        load_corpus(path_or_name, locale)
    return str(caught.value)


def test_identity_is_the_hash_of_the_bytes_on_disk(write_list):
    path = write_list("a|t")
    assert load_corpus(path).sha256 == hashlib.sha256(b"a|t\n").hexdigest()


def test_a_root_folder_with_a_locale_a_locale_folder_and_a_list_are_the_same(write_list):
    path = write_list("a|t", name="seedtts/zh/meta.lst")
    write_list("b|u", name="seedtts/en/meta.lst")
    corpora = [load_corpus(path.parents[1], "zh"), load_corpus(path.parent), load_corpus(path), load_corpus(str(path))]
    assert len(set(corpora)) == 1
    assert (corpora[0].name, corpora[0].locale, corpora[0].path) == ("zh/meta.lst", "zh", path)


def test_the_hard_cases_are_a_list_of_their_own(write_list):
    write_list("a|t", name="zh/meta.lst")
    corpus = load_corpus(write_list("h|t", name="zh/hardcase.lst"))
    assert (corpus.name, corpus.locale, corpus.rows[0].utterance_id) == ("zh/hardcase.lst", "zh", "h")


def test_a_root_with_one_locale_needs_none_and_with_two_needs_one(write_list, tmp_path):
    write_list("a|t")
    assert load_corpus(tmp_path).locale == "en"
    write_list("a|t", name="zh/meta.lst")
    assert "a locale, 'en' or 'zh'" in message(tmp_path)


def test_a_folder_without_a_locale_for_a_name_needs_one(write_list):
    """Red when an unknown folder name falls back to English: the WER rule differs by language."""
    path = write_list("a|t", name="my set/meta.lst")
    assert "folder named 'en' or 'zh'" in message(path)
    assert load_corpus(path, "zh").locale == "zh"
    assert load_corpus(path.parent, "en").locale == "en"


def test_an_argument_does_not_overrule_the_folder(write_list):
    assert "locale 'en'" in message(write_list("a|t"), "zh")
    assert "expected meta.lst or zh/meta.lst in it" in message("mini-en", "zh")


@pytest.mark.parametrize("locale", ["fr", "EN", "", "hard"])
def test_unknown_locales_are_refused(write_list, locale):
    assert "expected 'en' or 'zh'" in message(write_list("a|t"), locale)


def test_nothing_there_says_what_could_be(tmp_path):
    assert "bundled corpora are: mini-en" in message(tmp_path / "minien")
    assert "no such file or folder" in message("x" * 5000)
    (tmp_path / "empty").mkdir()
    assert "meta.lst or en/meta.lst or zh/meta.lst" in message(tmp_path / "empty")
    assert "meta.lst or zh/meta.lst in it" in message(tmp_path / "empty", "zh")


def test_clips_lie_beside_the_list_wherever_the_process_runs(write_list, tmp_path, monkeypatch):
    """Red when clip paths are taken relative to the working folder, or when the list's own path stays relative."""
    write_list("a|pt|prompt-wavs/a.wav|t", f"b|pt|{tmp_path}/b.wav|t")
    monkeypatch.chdir(tmp_path)
    corpus = load_corpus("en/meta.lst")
    monkeypatch.chdir("/")
    assert corpus.path == tmp_path / "en/meta.lst"
    assert [row.prompt_audio for row in corpus.rows] == [tmp_path / "en/prompt-wavs/a.wav", tmp_path / "b.wav"]


def test_a_link_to_a_list_has_its_clips_where_the_link_is(write_list, tmp_path):
    (tmp_path / "en").mkdir()
    (tmp_path / "en/meta.lst").symlink_to(write_list("a|t|a.wav", name="elsewhere/list.lst"))
    assert load_corpus(tmp_path / "en/meta.lst").rows[0].prompt_audio == tmp_path / "en/a.wav"


def test_a_list_is_the_same_under_the_c_locale(write_list):
    """Names outside ASCII in the path, the ids and the clips, in a process that was told nothing about UTF-8."""
    path = write_list("测试-1|pt|声音/é☃.wav|你好", name="输入 dir/zh/meta.lst")
    code = (
        "import sys; from ttsbench.corpus import load_corpus; row = load_corpus(sys.argv[1]).rows[0];"
        "print(ascii([row.utterance_id, row.text, row.prompt_audio.name]))"
    )
    root = Path(__file__).parents[2]
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", code, str(path)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ascii(["测试-1", "你好", "é☃.wav"])
