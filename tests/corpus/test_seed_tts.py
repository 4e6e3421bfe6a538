"""Lines of a list: what becomes a row, and what becomes which error."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttsbench.core import InvalidInput, Problem
from ttsbench.corpus import Column, CorpusRow, load_corpus, order

GOOD = "a-1|said before|prompt-wavs/a.wav|to be said"


def problems(path: Path) -> tuple[Problem, ...]:
    with pytest.raises(InvalidInput) as caught:
        load_corpus(path)
    return caught.value.problems


def where(path: Path) -> list[int]:
    """Line numbers of all problems, in the order reported."""
    found = problems(path)
    assert all(problem.where.startswith(f"{path}:") for problem in found)
    return [int(problem.where.rpartition(":")[2]) for problem in found]


@pytest.mark.parametrize(
    ("line", "fields", "row"),
    [
        ("a|pt|p.wav|t|g.wav", "id|prompt text|prompt wav|text|ground-truth wav", ("a", "t", "pt", "p.wav", "g.wav")),
        ("a|pt|p.wav|t", "id|prompt text|prompt wav|text", ("a", "t", "pt", "p.wav", None)),
        ("a.wav|t|p.wav", "id|text|prompt wav", ("a", "t", None, "p.wav", None)),
        ("a|t", "id|text", ("a", "t", None, None, None)),
    ],
    ids=["5", "4", "3", "2"],
)
def test_number_of_fields_decides_what_they_mean(write_list, line, fields, row):
    """Red when two columns of a layout in layout.py change places, or when three fields keep the `.wav` of the id."""
    path = write_list(line)
    corpus = load_corpus(path)
    utterance_id, text, prompt_text, prompt, truth = row
    assert order(corpus.fields) == fields
    assert corpus.rows == (
        CorpusRow(
            utterance_id=utterance_id,
            text=text,
            prompt_text=prompt_text,
            prompt_audio=path.parent / prompt if prompt else None,
            ground_truth_audio=path.parent / truth if truth else None,
            line=1,
        ),
    )


def test_only_three_field_lists_cut_the_suffix_off_an_id(write_list):
    """Red when `_cells` cuts `.wav` whatever the layout: a scorer would then look for another file than we write."""
    assert load_corpus(write_list("a.wav|t")).rows[0].utterance_id == "a.wav"


def test_layout_belongs_to_the_file_and_the_odd_line_is_the_error(write_list):
    """A four-field line among five-field ones is not read as four fields. Red when the layout is looked up per line."""
    path = write_list("a|pt|p.wav|t|g.wav", "b|pt|p.wav|t", "c|pt|p.wav|t|g.wav")
    (problem,) = problems(path)
    assert problem.where == f"{path}:2"
    assert "5 fields (id|prompt text|prompt wav|text|ground-truth wav)" in problem.expected
    assert problem.got == "4 fields"


def test_a_bar_inside_a_text_is_told_as_such(write_list):
    path = write_list(GOOD, "a-2|said before|p.wav|either|or")
    (problem,) = problems(path)
    assert (problem.got, problem.hint) == ("5 fields", "a text must not contain '|'")


def test_a_bad_first_line_does_not_condemn_the_rest(write_list):
    """Red when the first line decides the layout."""
    assert where(write_list("a-0|said before|p.wav", GOOD, GOOD.replace("a-1", "a-2"))) == [1]


def test_a_tie_goes_to_the_layout_seen_first(write_list):
    assert where(write_list(GOOD, "a-2|t")) == [2]
    assert where(write_list("a-2|t", GOOD)) == [2]


def test_a_file_that_fits_no_layout_names_all_of_them(write_list):
    path = write_list("just text", "a|b|c|d|e|f")
    assert [problem.got for problem in problems(path)] == ["1 field", "6 fields"]
    assert "id|text|prompt wav" in problems(path)[0].expected


def test_every_bad_line_is_reported_at_once_in_line_order(write_list):
    """Red when any check raises by itself, or when faults come in the order of the checks."""
    lines = [GOOD, "", "a-3|pt|p.wav", "../x|pt|p.wav|t", "a-1|pt|p.wav|t", "a-6|p.wav|pt|t", "a-7|pt|p.wav|\udcff"]
    data = "\n".join(lines).encode("utf-8", "surrogateescape")
    assert where(write_list(data=data)) == [2, 3, 4, 5, 6, 7]


def test_one_line_with_two_faults_has_both(write_list):
    assert where(write_list(GOOD, "a/b|p.wav|pt|t")) == [2, 2]


def test_duplicate_ids_name_both_lines(write_list):
    """Red when `repeats` forgets the earlier line: one of two rows would be overwritten by the other's wav."""
    path = write_list(GOOD, GOOD.replace("a-1", "a-2"), GOOD)
    (problem,) = problems(path)
    assert problem.where == f"{path}:3"
    assert "'a-1' on line 1" in problem.got


@pytest.mark.parametrize("other", ["A-1é", "a-1e\u0301"], ids=["case", "composition"])
def test_ids_that_some_file_systems_take_for_one_name_collide(write_list, other):
    """Red when `file_name_key` returns the id itself."""
    path = write_list("a-1é|t", f"{other}|t")
    (problem,) = problems(path)
    assert problem.where == f"{path}:2"
    assert "'a-1é' on line 1" in problem.got
    assert "case or Unicode form" in problem.expected


def test_byte_order_mark_and_crlf_change_nothing_but_the_hash(write_list):
    """Red when the mark becomes part of the first id, or the carriage return of the last field."""
    plain = load_corpus(write_list("a|t", "b|u"))
    marked = load_corpus(write_list(data=b"\xef\xbb\xbfa|t\r\nb|u\r\n"))
    assert marked.rows == plain.rows
    assert marked.sha256 != plain.sha256


def test_the_last_line_needs_no_end(write_list):
    assert len(load_corpus(write_list(data=b"a|t\nb|u")).rows) == 2


def test_blank_lines_are_errors_wherever_they_are(write_list):
    """Nothing is skipped in silence, a second newline at the end included."""
    assert where(write_list(data=b"\na|t\n \t\nb|u\n\n")) == [1, 3, 5]


def test_an_empty_file_is_an_error(write_list):
    (problem,) = problems(write_list(data=b"\xef\xbb\xbf"))
    assert problem.got == "an empty file"


def test_bytes_that_are_not_utf8_are_located(write_list):
    path = write_list(data=b"a|t\nb|caf\xe9\n")
    (problem,) = problems(path)
    assert (problem.where, problem.got) == (f"{path}:2", "byte 0xe9 at byte 6 of the line")


def test_unicode_line_separators_do_not_end_a_line(write_list):
    """Red with str.splitlines: U+2028, U+0085 and the form feed occur in real texts."""
    text = "one\u2028two\x85three\x0cfour"
    assert load_corpus(write_list(f"a|{text}")).rows[0].text == text


def test_columns_in_another_order_are_noticed(write_list):
    """A wrong order would have the transcript read aloud in every row; the clip's column gives it away."""
    path = write_list("a|prompt.wav|what it says|to be said")
    (problem,) = problems(path)
    assert "an audio file in field 3 (id|prompt text|prompt wav|text)" in problem.expected
    assert problem.got == "'what it says'"


def test_a_voice_description_is_no_ground_truth_clip(write_list):
    (problem,) = problems(write_list("a|pt|p.wav|t|a deep and friendly voice"))
    assert "field 5" in problem.expected


def test_a_clip_path_with_nul_is_a_fault_of_the_line(write_list):
    assert where(write_list("a|t|p\0.wav")) == [1]


@pytest.mark.parametrize("text", ["", " \t ", "……！？", "—"])
def test_content_is_not_judged_here(write_list, text):
    """Empty texts, missing clips and missing transcripts leave their neighbours alone. Red when one raises."""
    rows = load_corpus(write_list(f"a|||{text}", "b|pt|nowhere.wav|good")).rows
    assert rows[0].text == text.strip()
    assert (rows[0].prompt_text, rows[0].prompt_audio) == (None, None)
    assert rows[1].text == "good"


def test_rows_keep_file_order_and_repeated_texts(write_list):
    rows = load_corpus(write_list("b|same", "c|same", "a|same")).rows
    assert [(row.utterance_id, row.line) for row in rows] == [("b", 1), ("c", 2), ("a", 3)]


def test_columns_are_words_a_user_can_type():
    assert [str(column) for column in Column] == ["id", "prompt text", "prompt wav", "text", "ground-truth wav"]
