"""The figures of the speaker encoder: what an equal-error rate is, and which pairs it is of."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.measure_speaker_encoder import Row, against, among, equal_error


@pytest.mark.parametrize(
    ("same", "cross", "rate"),
    [
        ([0.8, 0.9], [0.1, 0.2], 0.0),
        ([0.1, 0.2], [0.8, 0.9], 1.0),
        ([0.3, 0.7, 0.8, 0.9], [0.1, 0.2, 0.4, 0.75], 0.25),
    ],
    ids=["apart", "the wrong way round", "one of four on either side"],
)
def test_the_equal_error_rate_is_where_both_shares_meet(same: list[float], cross: list[float], rate: float) -> None:
    """Red when misses and false alarms are swapped, or one of them alone is reported."""
    assert equal_error(np.array(same), np.array(cross))[0] == rate


def test_pairs_are_of_one_voice_or_two_and_never_of_the_same_words_in_one() -> None:
    """Red when a row meets itself, or its twin from another seed, as a same-voice pair."""
    rows = [
        Row("a", "x", np.array([1.0, 0])),
        Row("a", "x", np.array([1.0, 0])),
        Row("a", "y", np.array([0.6, 0.8])),
        Row("b", "x", np.array([0.0, 1])),
    ]
    pairs = among(rows)
    assert sorted(pairs.same) == pytest.approx([0.6, 0.6])
    assert sorted(pairs.cross) == pytest.approx([0, 0, 0.8])
    with_clips = against(rows, [Row("a", "", np.array([1.0, 0])), Row("b", "", np.array([0.0, 1]))])
    assert sorted(with_clips.same) == pytest.approx([0.6, 1, 1, 1])
    assert sorted(with_clips.cross) == pytest.approx([0, 0, 0, 0.8])
