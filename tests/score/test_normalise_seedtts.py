"""The official text rule, its oddities included."""

from __future__ import annotations

import string

import pytest
import zhon.hanzi

from ttsbench.score.normalise import PUNCTUATION, normalise_seedtts
from ttsbench.score.normalise.seedtts import HANZI_PUNCTUATION


def official(text: str, language: str) -> str:
    """The rule as the official script has it: one replacement after the other."""
    for mark in zhon.hanzi.punctuation + string.punctuation:
        if mark != "'":
            text = text.replace(mark, "")
    text = text.replace("  ", " ")
    return " ".join(text) if language == "zh" else text.lower()


def test_the_character_set_is_zhons() -> None:
    """Red when a character is missing, or one too many is there."""
    assert set(HANZI_PUNCTUATION) == set(zhon.hanzi.punctuation)
    assert set(PUNCTUATION) == set(zhon.hanzi.punctuation + string.punctuation) - {"'"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's Fine, isn't it?", "it's fine isn't it"),
        ("It’s fine", "its fine"),
        ("it＇s", "its"),
        ("a well-known fact", "a wellknown fact"),
        ("now—then", "nowthen"),
        ("one\u00a0\u00a0two", "one\u00a0\u00a0two"),
        ("a  b   c    d", "a b  c  d"),
        ("a , b", "a b"),
        ("Type One, fifty, 50 %", "type one fifty 50 "),
        ("ＡＢＣ", "ａｂｃ"),
        ("！！！", ""),
    ],
)
def test_english(text: str, expected: str) -> None:
    """Red when the rule gets friendlier than the official one, which would change every published figure."""
    assert normalise_seedtts(text, "en") == expected == official(text, "en")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好，世界。", "你 好 世 界"),
        ("“25公里”《书》", "2 5 公 里 书"),
        ("五十 percent", "五 十   p e r c e n t"),
        ("繁體", "繁 體"),
    ],
)
def test_chinese_words_are_characters(text: str, expected: str) -> None:
    """Red when Latin letters or digits inside Chinese text are kept together."""
    assert normalise_seedtts(text, "zh") == expected == official(text, "zh")


def test_another_language_is_an_error() -> None:
    """Red when an unknown language is scored as if it were English."""
    with pytest.raises(ValueError, match="knows en and zh, got 'de'"):
        normalise_seedtts("Hallo", "de")
