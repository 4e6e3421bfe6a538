"""Characters are no words: two of them meet by chance."""

from __future__ import annotations

from ttsbench.score.leaks import CHARACTERS, Saying, leaks


def said(heard: str, prompt: str = "今天天气很好我们去公园") -> Saying:
    return Saying(0, tuple("大家好"), tuple(heard), tuple(prompt))


def test_two_characters_of_the_prompts_end_are_chance_and_four_are_not() -> None:
    """Red when Chinese prompts are held to the bar of English words."""
    assert leaks([said("公园大家好")], CHARACTERS) == ()
    (leak,) = leaks([said("们去公园大家好")], CHARACTERS)
    assert "".join(leak.words) == "们去公园"
