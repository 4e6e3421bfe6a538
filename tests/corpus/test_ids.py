"""Ids become file names: which are refused, and that the others are safe."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsbench.corpus.ids import MAX_ID_BYTES, file_name_key, repeats, unsafe_id


@pytest.mark.parametrize(
    "utterance_id",
    [
        *("", ".", "..", "../x", "a/b", "a\\b", "/root", ".hidden", "a\0b", "a\nb", "a\x7fb", "a\u2028b", " a", "a "),
        *("CON", "nul.txt", "com1", "é" * 101, "x" * 300),
    ],
)
def test_refused(utterance_id):
    """Red when the check that the id is named after goes from `unsafe_id`."""
    assert unsafe_id(utterance_id)


@pytest.mark.parametrize(
    "utterance_id",
    [
        *("common_voice_en_10119832-common_voice_en_10119840", "10002287-00000095", "x" * MAX_ID_BYTES),
        *("测试-1", "é☃", "a b", "a..b", "console"),
    ],
)
def test_accepted(utterance_id):
    assert unsafe_id(utterance_id) is None


@given(st.text(alphabet=st.sampled_from("aA.é/\\ \0\n:|\u2028测"), max_size=8) | st.text(max_size=250))
def test_what_is_accepted_is_one_short_visible_name_in_the_folder(utterance_id):
    """Holds for any text. Red when the separators, the leading dot or the byte limit go from `unsafe_id`."""
    if unsafe_id(utterance_id) is not None:
        return
    name = f"{utterance_id}.wav"
    assert PurePosixPath("out", name).parts == ("out", name)
    assert len(PureWindowsPath("out", name).parts) == 2
    assert not name.startswith(".")
    assert len(name.encode()) <= 255
    assert not any(unicodedata.category(character) == "Cc" for character in name)


@given(st.text())
def test_the_key_is_stable_under_case_and_composition(text):
    """Red when one of the two normalisations goes: folding case can undo composition."""
    assert file_name_key(file_name_key(text)) == file_name_key(text)
    assert file_name_key(unicodedata.normalize("NFD", text)) == file_name_key(text)


def test_repeats_point_to_the_first_of_several():
    assert repeats([(1, "a"), (2, "b"), (3, "A"), (5, "a")]) == [(3, "A", 1, "a"), (5, "a", 1, "a")]


def test_empty_ids_are_one_fault_each_and_not_repeats_too():
    assert repeats([(1, ""), (2, "")]) == []
