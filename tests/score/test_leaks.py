"""Words of a voice prompt at the head of what was heard."""

from __future__ import annotations

from ttsbench.records.wer import PromptLeak
from ttsbench.score.leaks import Saying, leaks


def saying(row: int, target: str, heard: str, prompt: str) -> Saying:
    return Saying(row, tuple(target.split()), tuple(heard.split()), tuple(prompt.split()))


PROMPT = "we keep a purple elephant in the barn"
OTHER = "nobody told the captain about the broken lantern"


def test_the_end_of_the_own_prompt_at_the_head_is_a_leak() -> None:
    """Red when only whole prompts, or only the first word's place, are looked at."""
    heard = "uh the barn she sells apples"
    (leak,) = leaks([saying(4, "she sells apples", heard, PROMPT)])
    assert leak == PromptLeak(row_index=4, prompt_row_index=4, own=True, words=("the", "barn"))


def test_another_rows_prompt_is_a_foreign_leak() -> None:
    """Red when prompts are only compared with their own row."""
    rows = [
        saying(0, "she sells apples", "the captain about the broken lantern she sells apples", PROMPT),
        saying(1, "he buys pears", "he buys pears", OTHER),
    ]
    (leak,) = leaks(rows)
    assert (leak.row_index, leak.prompt_row_index, leak.own) == (0, 1, False)
    assert leak.words == ("the", "captain", "about", "the")


def test_words_of_the_target_are_no_leak() -> None:
    """Red when the target is not looked at: it may well begin as a prompt ends."""
    assert not leaks([saying(0, "in the barn it is warm", "in the barn it is warm", PROMPT)])


def test_prompt_words_later_on_are_no_leak() -> None:
    """Red when the whole transcript is searched."""
    assert not leaks([saying(0, "she sells many good apples", "she sells many good apples in the barn", PROMPT)])


def test_a_prompt_that_rows_share_is_ones_own() -> None:
    """Red when a row's own prompt, found by another row that has it too, is called foreign."""
    rows = [saying(row, "she sells apples", "a purple elephant in she sells apples", PROMPT) for row in (0, 1)]
    assert [(leak.row_index, leak.prompt_row_index, leak.own) for leak in leaks(rows)] == [(0, 0, True), (1, 1, True)]


def test_rows_without_prompt_or_words_say_nothing() -> None:
    """Red when an empty side raises."""
    assert not leaks([saying(0, "", "", ""), saying(1, "one two", "", "in the barn"), saying(2, "one", "in", "")])
