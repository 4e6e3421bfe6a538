"""The four line layouts of Seed-TTS lists, told apart by their number of fields.

A line is UTF-8 with fields separated by `|`, no quoting, no escape. The official scripts look at each line anew, so a
`|` inside a text turns one layout into another without a word. Here the layout belongs to the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

SEPARATOR = "|"


class Column(StrEnum):
    """What a field means."""

    ID = "id"
    PROMPT_TEXT = "prompt text"
    PROMPT_AUDIO = "prompt wav"
    TEXT = "text"
    GROUND_TRUTH_AUDIO = "ground-truth wav"


AUDIO_COLUMNS = frozenset({Column.PROMPT_AUDIO, Column.GROUND_TRUTH_AUDIO})

Layout = tuple[Column, ...]

FIVE_FIELDS: Layout = (Column.ID, Column.PROMPT_TEXT, Column.PROMPT_AUDIO, Column.TEXT, Column.GROUND_TRUTH_AUDIO)
FOUR_FIELDS: Layout = FIVE_FIELDS[:4]
THREE_FIELDS: Layout = (Column.ID, Column.TEXT, Column.PROMPT_AUDIO)
"""Not a prefix of the longer ones: the text comes before the clip, and the official scripts cut `.wav` off the id."""
TWO_FIELDS: Layout = (Column.ID, Column.TEXT)

LAYOUTS: dict[int, Layout] = {len(layout): layout for layout in (FIVE_FIELDS, FOUR_FIELDS, THREE_FIELDS, TWO_FIELDS)}


def order(layout: Layout) -> str:
    """The layout as a user would type it: `id|prompt text|prompt wav|text`."""
    return SEPARATOR.join(layout)


def layout_of(field_counts: Sequence[int]) -> Layout | None:
    """The layout of a file whose lines have these numbers of fields; None if no line fits any layout.

    The most frequent count wins, and the earlier one in a tie: one broken line, even the first, is then reported as the
    error that it is, where "the first line decides" would report all the others.
    """
    known = Counter(count for count in field_counts if count in LAYOUTS)
    # Counter keeps first-seen order and most_common is stable, so a tie goes to the count that was seen first.
    return LAYOUTS[known.most_common(1)[0][0]] if known else None
