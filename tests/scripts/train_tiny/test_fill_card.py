"""Tables of an evaluation in a model card."""

from __future__ import annotations

import pytest

from scripts.train_tiny.fill_card import filled, tables

REPORT = "## Lines\n\nx\n\n## tiny\n\na\n\n## tiny, streaming\n\nb\n\n## tiny-base\n\nc\n"


def test_a_card_takes_the_tables_of_its_own_checkpoint() -> None:
    """Red when `tiny` also takes those of `tiny-base`."""
    assert tables(REPORT, "tiny") == "### tiny\n\na\n\n### tiny, streaming\n\nb\n"
    assert tables(REPORT, "tiny-base") == "### tiny-base\n\nc\n"
    with pytest.raises(SystemExit, match="no section about other"):
        tables(REPORT, "other")


def test_filling_again_replaces_what_stood_there() -> None:
    card = "top\n<!-- evaluation -->\nNot evaluated.\n<!-- /evaluation -->\nbottom\n"
    once = filled(card, "one\n")
    assert once == "top\n<!-- evaluation -->\none\n<!-- /evaluation -->\nbottom\n"
    assert filled(once, "two") == once.replace("one", "two")
    with pytest.raises(SystemExit, match="lacks the lines"):
        filled("no markers", "x")
