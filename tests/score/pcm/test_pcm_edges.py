"""Frame edges against points inside frames, and the distance that clicks keep."""

from __future__ import annotations

import numpy as np
import pytest

from ttsbench.records.pcm import FaultKind, PcmFinding
from ttsbench.score.pcm.edges import SHARPNESS, click_period, compare_edges
from ttsbench.score.pcm.joints import Evidence
from ttsbench.score.pcm.seam import FEATURES


def evidence(edges: np.ndarray, inside: np.ndarray) -> Evidence:
    def features(sharpness: np.ndarray) -> np.ndarray:
        columns = np.zeros((len(sharpness), len(FEATURES)))
        columns[:, SHARPNESS] = sharpness
        return columns

    return Evidence(np.arange(len(edges)) * 0.08, features(edges), np.ones(len(edges), bool), features(inside), ())


def clicks(*frames: float) -> list[PcmFinding]:
    return [PcmFinding(kind=FaultKind.CLICK, start_s=0.08 * frame, length_s=0.0, strength=1.0) for frame in frames]


def test_clean_edges_are_as_sharp_as_the_inside_and_broken_ones_sharper() -> None:
    """Red when the two sides are swapped, or ties count whole."""
    rng = np.random.default_rng(0)
    inside, edges = rng.normal(0, 1, 3000), rng.normal(0, 1, 1000)
    clean = compare_edges([evidence(edges, inside)])
    # 1000 against 3000 draws: the standard error of the chance is 0.011.
    assert clean.edge_sharper_probability == pytest.approx(0.5, abs=0.04)
    broken = compare_edges([evidence(edges + 3, inside)])
    assert broken.edge_sharper_probability is not None
    assert broken.edge_sharper_probability > 0.95
    assert compare_edges([evidence(np.zeros(3), np.zeros(5))]).edge_sharper_probability == 0.5


def test_no_edges_is_null_with_a_reason() -> None:
    """Red when nothing looked at is zero."""
    nothing = compare_edges([])
    assert (nothing.edges, nothing.edge_median_db, nothing.edge_sharper_probability) == (0, None, None)
    assert nothing.edge_median_db_missing


def test_the_chunk_is_the_distance_that_clicks_keep() -> None:
    """Some joints are not heard, so distances are multiples. Red when the smallest distance is taken."""
    assert click_period([clicks(10, 20, 25, 40), clicks(5, 15, 20), clicks(30)], 0.08) == 5
    assert click_period([clicks(10, 35, 60), clicks(25, 50, 75, 100)], 0.08) == 25


def test_scattered_or_few_clicks_have_no_period() -> None:
    """Red when a period of one frame, or one found in three clicks, is reported."""
    assert click_period([clicks(3, 4, 9, 16, 18, 29, 30, 33)], 0.08) is None
    assert click_period([clicks(10, 20, 30)], 0.08) is None
    assert click_period([clicks(10.3, 20.3, 30.3, 40.3, 50.3, 60.3, 70.3)], 0.08) is None
