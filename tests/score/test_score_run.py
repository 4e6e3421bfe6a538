"""From a run folder to scores: every row is in the result, failures at full price."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from tests.records.builders import counts, manifest, request_without_audio
from tests.score.runs import FakeAsr, fake_protocol, length_of, spoken, tone, wav_bytes, write_run
from ttsbench.core import InvalidInput, Problem
from ttsbench.records import (
    RecordError,
    RowStatus,
    RunFolder,
    RunStatus,
    WerSummary,
    read_scores,
    read_wer,
    sha256_of,
)
from ttsbench.score import ScoringProtocol, score_run, score_under
from ttsbench.score.asr import Clip

ROOT = Path(__file__).parents[2]
TEXT = "One, two, three!"


def score(run_dir: Path, asr: FakeAsr) -> WerSummary:
    return score_under(run_dir, fake_protocol(asr)).wer["fake-1"]


def causes(run_dir: Path) -> dict[int, str | None]:
    return {row.row_index: row.cause for row in read_wer(run_dir, "fake-1").records}


def test_a_good_run_scores_every_row(tmp_path: Path) -> None:
    """Red when the text rule is not applied to both sides, or the files do not hold what is returned."""
    write_run(tmp_path, [spoken(tmp_path, 0, TEXT), spoken(tmp_path, 1, TEXT)])
    summary = score(tmp_path, FakeAsr({0: "One two three.", 1: "One two tree."}))
    assert (summary.rows_expected, summary.rows_scored, summary.complete) == (2, 2, True)
    assert summary.all_rows == summary.survivors
    assert summary.all_rows is not None
    assert summary.all_rows.corpus_pct == pytest.approx(100 / 6)
    rows = read_wer(tmp_path, "fake-1")
    assert [(row.utterance_id, row.hypothesis) for row in rows.records] == [
        ("u0", "one two three"),
        ("u1", "one two tree"),
    ]
    assert read_scores(tmp_path).wer["fake-1"] == summary
    assert summary.rows_sha256 == rows.sha256
    assert summary.requests_sha256 == sha256_of(RunFolder(tmp_path).requests.read_bytes())


def test_deleting_wavs_costs_exactly_their_words(tmp_path: Path) -> None:
    """10 rows of 3 words, one word wrong in row 9; k files deleted add 3k errors to the 30 words.

    Red when a missing file is skipped (the figure would fall) or charged by anything but its reference words.
    """
    rows = [spoken(tmp_path, index, TEXT) for index in range(10)]
    write_run(tmp_path, rows)
    words: dict[int, str | Exception] = dict.fromkeys(range(10), "one two three")
    asr = FakeAsr(words | {9: "one two tree"})
    for deleted in range(4):
        if deleted:
            (tmp_path / "wav" / f"u{deleted}.wav").unlink()
        summary = score(tmp_path, asr)
        assert summary.all_rows is not None
        assert summary.survivors is not None
        assert summary.all_rows.corpus_pct == pytest.approx(100 * (1 + 3 * deleted) / 30)
        assert summary.all_rows.sentence_mean_pct == pytest.approx((100 / 3 + 100 * deleted) / 10)
        assert summary.survivors.corpus_pct == pytest.approx(100 / (30 - 3 * deleted))
        assert summary.rows_charged == deleted
        assert summary.complete  # charged rows are judged rows


def test_every_failure_is_charged_under_its_own_cause(tmp_path: Path) -> None:
    """Red when a kind of failure is skipped, merged with another, recognised all the same, or ends the scoring."""
    silent = wav_bytes(np.zeros(5000))
    offset = wav_bytes(np.full(5000, -1.0))
    without_audio = (RowStatus.EMPTY, RowStatus.CANCELLED, RowStatus.FAILED, RowStatus.INVALID)
    rows = [
        spoken(tmp_path, 0, TEXT),
        *(request_without_audio(i, status, TEXT) for i, status in enumerate(without_audio, start=1)),
        spoken(tmp_path, 5, TEXT, silent),
        spoken(tmp_path, 6, TEXT, offset),
        spoken(tmp_path, 7, TEXT),
        spoken(tmp_path, 8, TEXT),
        spoken(tmp_path, 9, TEXT),
        spoken(tmp_path, 10, "！！！"),
        request_without_audio(11, RowStatus.INVALID, "..."),
        spoken(tmp_path, 12, TEXT, sample_rate_hz=24_000, duration_s=length_of(12) / 24_000),
    ]
    made = manifest(rows=13)
    write_run(tmp_path, rows, made)
    (tmp_path / "wav" / "u7.wav").unlink()
    (tmp_path / "wav" / "u8.wav").write_bytes(b"RIFF")
    (tmp_path / "wav" / "u9.wav").write_bytes(wav_bytes(tone(length_of(9), 0.2)))
    asr = FakeAsr(dict.fromkeys(range(13), "one two three"))
    summary = score(tmp_path, asr)
    assert causes(tmp_path) == {
        0: None,
        1: "empty",
        2: "cancelled",
        3: "failed",
        4: "invalid",
        5: "silent",
        6: "silent",
        7: "missing_wav",
        8: "undecodable",
        9: "wav_mismatch",
        10: "no_reference_words",
        11: "invalid",
        12: "wav_mismatch",
    }
    assert asr.heard == [0]
    assert (summary.rows_scored, summary.rows_charged) == (1, 12)
    assert summary.charged_by_cause["silent"] == 2
    records = read_wer(tmp_path, "fake-1").records
    assert {row.wer_pct for row in records[1:]} == {100.0}
    assert [row.reference_words for row in records] == [3] * 10 + [0, 0, 3]
    assert summary.all_rows is not None
    assert summary.all_rows.sentence_mean_pct == pytest.approx(100 * 12 / 13)
    assert summary.all_rows.corpus_pct == pytest.approx(100 * 30 / 33)


def test_an_empty_transcript_is_scored_as_all_deletions_and_counted(tmp_path: Path) -> None:
    """Red when a row in which nothing was heard vanishes, or reads as WER 0."""
    write_run(tmp_path, [spoken(tmp_path, index, TEXT) for index in range(4)])
    summary = score(tmp_path, FakeAsr({0: "", 1: " ... ", 2: "one two three", 3: "one two three"}))
    assert (summary.rows_scored, summary.rows_empty_transcript) == (4, 2)
    assert summary.all_rows is not None
    assert (summary.all_rows.deletions, summary.all_rows.sentence_mean_pct) == (6, 50)


def test_rows_that_end_early_are_counted(tmp_path: Path) -> None:
    """Red when an empty transcript counts as one, or rows are counted for words."""
    write_run(tmp_path, [spoken(tmp_path, index, TEXT) for index in range(4)])
    summary = score(tmp_path, FakeAsr({0: "one", 1: "one two", 2: "", 3: "two three"}))
    assert (summary.rows_trailing_deletions, summary.words_trailing_deletions) == (2, 3)


def test_a_runaway_is_scored_whole_and_counted(tmp_path: Path) -> None:
    """Red when a row cut at the frame limit looks like any other."""
    row = spoken(tmp_path, 0, TEXT, status=RowStatus.LENGTH, finish_reason="length")
    write_run(tmp_path, [row], manifest(rows=1, counts=counts(1, length=1)))
    summary = score(tmp_path, FakeAsr({0: "one two three and on and on"}))
    assert (summary.rows_scored, summary.rows_cut_at_length) == (1, 1)
    assert summary.all_rows is not None
    assert summary.all_rows.insertions == 4


def test_a_row_on_which_the_recogniser_broke_is_unscored_and_the_result_incomplete(tmp_path: Path) -> None:
    """Red when the exception ends the scoring, or becomes a score (0 %, or 100 %: it says nothing about the speech)."""
    write_run(tmp_path, [spoken(tmp_path, 0, TEXT), spoken(tmp_path, 1, TEXT)])
    summary = score(tmp_path, FakeAsr({0: RuntimeError("out of memory"), 1: "one two three"}))
    assert (summary.rows_scored, summary.rows_charged, summary.rows_unscored) == (1, 0, 1)
    assert (summary.complete, summary.incomplete_because) == (False, ("the recogniser broke on 1 rows",))
    assert summary.unscored_by_cause == {"asr_error": 1}
    row = read_wer(tmp_path, "fake-1").records[0]
    assert (row.wer_pct, row.cause_detail) == (None, "RuntimeError: out of memory")


def test_a_run_of_nothing_but_broken_rows_has_no_figure(tmp_path: Path) -> None:
    """Red when no data becomes a number."""
    write_run(tmp_path, [spoken(tmp_path, 0, TEXT)])
    summary = score(tmp_path, FakeAsr({0: RuntimeError("no")}))
    assert (summary.all_rows, summary.all_rows_missing) == (None, "no row could be scored")


@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.INTERRUPTED, RunStatus.BROKEN])
def test_an_unfinished_run_is_scored_and_labelled_incomplete(tmp_path: Path, status: RunStatus) -> None:
    """Red when rows without a record are forgotten, or the run passes for a whole one."""
    made = manifest(rows=3, status=status, counts=counts(3, ok=1))
    write_run(tmp_path, [spoken(tmp_path, 1, TEXT)], made)
    summary = score(tmp_path, FakeAsr({1: "one two three"}))
    assert (summary.rows_expected, summary.rows_scored, summary.charged_by_cause) == (3, 1, {"missing_record": 2})
    state = "running, or was killed" if status is RunStatus.RUNNING else status
    assert summary.incomplete_because == (f"the run is {state}", "2 rows have no record")
    assert summary.all_rows is not None
    assert summary.all_rows.sentence_mean_pct == pytest.approx(200 / 3)
    assert (summary.all_rows.corpus_pct, summary.all_rows.corpus_pct_missing) == (None, "2 rows have an unknown text")
    assert causes(tmp_path) == {0: "missing_record", 1: None, 2: "missing_record"}


def test_several_workers_give_the_rows_in_order(tmp_path: Path) -> None:
    """Row 0 is heard last: it waits for row 1. Red when results come in order of completion."""

    class Waiting(FakeAsr):
        heard_one = threading.Event()

        def transcribe(self, clip: Clip) -> str:
            if len(clip.samples) == length_of(0):
                assert self.heard_one.wait(timeout=30)
            else:
                self.heard_one.set()
            return super().transcribe(clip)

    write_run(tmp_path, [spoken(tmp_path, 0, TEXT), spoken(tmp_path, 1, TEXT)])
    done: list[tuple[int, int]] = []
    asr = Waiting({0: "one", 1: "two"}, workers=2)
    score_under(tmp_path, fake_protocol(asr), lambda *seen: done.append(seen))
    assert [row.transcript for row in read_wer(tmp_path, "fake-1").records] == ["one", "two"]
    assert asr.heard == [1, 0]
    assert done == [(1, 2), (2, 2)]


def test_another_protocols_score_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    """Red when scoring under a second protocol wipes the first, or the two land in one file."""
    write_run(tmp_path, [spoken(tmp_path, 0, TEXT)])
    first = score_under(tmp_path, fake_protocol(FakeAsr({0: "one"}))).wer["fake-1"]
    other = type(fake_protocol(FakeAsr({})))(id="fake-2", language="en", asr=FakeAsr({0: "one two three"}))
    both = score_under(tmp_path, other)
    assert both.wer["fake-1"] == first
    assert sorted(both.wer) == ["fake-1", "fake-2"]
    assert read_wer(tmp_path, "fake-1").records[0].transcript == "one"


def test_an_interrupted_scoring_leaves_the_earlier_result(tmp_path: Path) -> None:
    """Red when a file is opened for writing before all rows are judged."""
    write_run(tmp_path, [spoken(tmp_path, 0, TEXT), spoken(tmp_path, 1, TEXT)])
    score(tmp_path, FakeAsr({0: "one", 1: "two"}))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def interrupt(done: int, expected: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_under(tmp_path, fake_protocol(FakeAsr({0: "x", 1: "y"})), interrupt)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_run_that_does_not_fit_is_refused_before_any_work(tmp_path: Path) -> None:
    """Red when a Chinese run is scored as English, or a run of no rows gets a figure."""
    asr = FakeAsr({0: "one"})
    write_run(tmp_path, [spoken(tmp_path, 0, TEXT)], manifest(rows=1, locale="zh"))
    with pytest.raises(InvalidInput, match=r"of language en, as protocol fake-1 judges, got locale zh; .*--only"):
        score(tmp_path, asr)
    write_run(tmp_path, [], manifest(rows=0))
    with pytest.raises(InvalidInput, match="at least one row"):
        score(tmp_path, asr)
    write_run(tmp_path, [spoken(tmp_path, 0, TEXT), spoken(tmp_path, 3, TEXT)], manifest(rows=2))
    with pytest.raises(RecordError, match="row 3 is beyond the 2 rows"):
        score(tmp_path, asr)
    with pytest.raises(InvalidInput, match="mini-en-1"):
        score_run(tmp_path, "whisper-large")
    assert asr.heard == []


def test_tiny_en_hears_a_bundled_clip(tmp_path: Path) -> None:
    """The real recogniser, once: a clear 4 s clip of 16 words, of which tiny.en may miss one (it errs on 1-2 %).

    Red when the audio reaches it at a wrong rate, or the text rule is left out on one side.
    """
    corpus = ROOT / "ttsbench" / "assets" / "mini_en" / "en"
    _, text, clip, _ = (corpus / "meta.lst").read_text(encoding="utf-8").splitlines()[0].split("|")[:4]
    write_run(tmp_path, [spoken(tmp_path, 0, text, (corpus / clip).read_bytes())], manifest(rows=1))
    summary = score_run(tmp_path, "mini-en-1").wer["mini-en-1"]
    assert summary.complete
    assert summary.all_rows is not None
    assert summary.all_rows.substitutions + summary.all_rows.deletions + summary.all_rows.insertions <= 1
    assert summary.software["faster-whisper"]


def test_a_text_rule_that_cannot_run_is_found_before_a_row_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when its package is looked for only once the recogniser has spent its hour."""
    run = write_run(tmp_path, [spoken(tmp_path, 0, "one")])
    asr = FakeAsr({0: "one"})

    def missing(protocol: ScoringProtocol) -> None:
        raise InvalidInput(Problem("zhconv", "the package", "no module", "pip install zhconv"))

    monkeypatch.setattr(ScoringProtocol, "check_text_rule", missing)
    with pytest.raises(InvalidInput, match="zhconv"):
        score_under(run, fake_protocol(asr))
    assert asr.heard == []
