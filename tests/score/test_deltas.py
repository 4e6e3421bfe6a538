"""The same speech under several protocols: figures side by side, and the rows that change sides."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.score.runs import FakeAsr, fake_protocol, spoken, write_run
from ttsbench.score import ScoringProtocol
from ttsbench.score.deltas import protocol_deltas
from ttsbench.score.policy import Failures, Headline
from ttsbench.score.run import score_wer
from ttsbench.score.source import RunSource

TEXT = "one two three"
STRICT = {0: TEXT, 1: "one two tree", 2: "", 3: "one", 4: TEXT}
KIND = {0: TEXT, 1: TEXT, 2: "", 3: "one two", 4: "one two tree"}


def protocols(first: dict[int, str], second: dict[int, str]) -> list[ScoringProtocol]:
    made = [fake_protocol(FakeAsr(dict(words), weights=name)) for name, words in (("a", first), ("b", second))]
    return [dataclasses.replace(protocol, id=name) for protocol, name in zip(made, "ab", strict=True)]


def source(tmp_path: Path, rows: int = 5) -> RunSource:
    return RunSource.open(write_run(tmp_path, [spoken(tmp_path, index, TEXT) for index in range(rows)]))


def test_rows_that_change_sides_are_named(tmp_path: Path) -> None:
    """Red when a row is missed, or one with the same verdict under both (rows 0 and 2) is named."""
    deltas = protocol_deltas(score_wer(source(tmp_path), protocols(STRICT, KIND)))
    assert [(flip.utterance_id, flip.perfect, flip.above_50) for flip in deltas.flips] == [
        ("u1", True, False),
        ("u3", False, True),
        ("u4", True, False),
    ]
    assert deltas.flips[1].wer_pct == pytest.approx({"a": 200 / 3, "b": 100 / 3})


def test_the_table_has_each_protocols_own_headline_beside_common_figures(tmp_path: Path) -> None:
    """Survivors and corpus under b: 3 errors less. Red when one protocol's headline is shown for the other."""
    strict, kind = protocols(STRICT, STRICT)
    kind = dataclasses.replace(kind, failures=Failures.WITHOUT_WORDS_LEFT_OUT, headline=Headline.CORPUS)
    deltas = protocol_deltas(score_wer(source(tmp_path), [strict, kind]))
    a, b = deltas.headlines["a"], deltas.headlines["b"]
    assert (a.figure, a.rows) == ("sentence_mean_pct", 5)
    assert a.pct == pytest.approx(100 * (1 + 3 + 2) / 3 / 5)
    assert (b.figure, b.rows) == ("corpus_pct", 4)
    assert b.pct == pytest.approx(100 * (1 + 2) / 12)
    assert deltas.corpus_pct["a"] == deltas.corpus_pct["b"] == pytest.approx(100 * 6 / 15)
    assert deltas.flips == ()


def test_a_row_that_could_not_be_scored_flips_nothing(tmp_path: Path) -> None:
    """Red when no figure counts as a perfect or a bad one."""
    broken = protocols(STRICT, KIND)
    broken[1] = dataclasses.replace(broken[1], asr=FakeAsr({0: RuntimeError("no"), 1: TEXT}, weights="b"))
    deltas = protocol_deltas(score_wer(source(tmp_path, 2), broken))
    assert [flip.utterance_id for flip in deltas.flips] == ["u1"]


def test_scores_of_different_runs_are_refused(tmp_path: Path) -> None:
    """Red when the shorter run decides which rows are compared."""
    for name in ("long", "short"):
        (tmp_path / name).mkdir()
    strict, kind = protocols(STRICT, KIND)
    scores = score_wer(source(tmp_path / "long"), [strict]) | score_wer(source(tmp_path / "short", 2), [kind])
    with pytest.raises(ValueError, match="not of the same run"):
        protocol_deltas(scores)
