"""One recogniser, many rules: who is asked, how often, and what happens when it breaks."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest

from tests.records.builders import manifest
from tests.score.runs import FakeAsr, fake_protocol, length_of, spoken, tone, wav_bytes, write_run
from ttsbench.core import InvalidInput, Problem
from ttsbench.records import Outcome
from ttsbench.score import ScoringProtocol
from ttsbench.score.asr import Clip
from ttsbench.score.resample import Resampler
from ttsbench.score.run import WerScore, score_wer
from ttsbench.score.source import RunSource
from ttsbench.score.transcripts import TranscriptCache

TEXT = "One, two, three!"
RIGHT: dict[int, str | Exception] = dict.fromkeys(range(6), "one two three")


def run_of(folder: Path, rows: int) -> RunSource:
    folder.mkdir(exist_ok=True)
    return RunSource.open(write_run(folder, [spoken(folder, index, TEXT) for index in range(rows)]))


def protocol(asr: FakeAsr, protocol_id: str = "fake-1", **changes: object) -> ScoringProtocol:
    return dataclasses.replace(fake_protocol(asr), id=protocol_id, **changes)  # type: ignore[arg-type]


def score(source: RunSource, asr: FakeAsr, cache: TranscriptCache | None = None) -> WerScore:
    return score_wer(source, [protocol(asr)], cache=cache)["fake-1"]


class Flaky(FakeAsr):
    """Breaks on its first `faults` clips of row 1."""

    faults = 1

    def transcribe(self, clip: Clip) -> str:
        words = super().transcribe(clip)
        if self.heard.count(1) <= self.faults and len(clip.samples) == length_of(1):
            raise TimeoutError("no answer")
        return words


def test_after_one_failure_all_rows_are_heard_anew_and_the_failure_is_on_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Red when the failed row alone is patched, the failure is forgotten, or nobody is told."""
    asr = Flaky(RIGHT, workers=2)
    with caplog.at_level(logging.WARNING, "ttsbench"):
        summary = score(run_of(tmp_path, 3), asr).summary
    assert sorted(asr.heard) == [0, 0, 1, 1, 2, 2]
    assert asr.heard[3:] == [0, 1, 2], "not one at a time, in order"
    assert (summary.rows_scored, summary.rows_unscored, summary.complete) == (3, 0, True)
    failure = summary.first_asr_failure
    assert failure is not None
    assert (failure.row_index, failure.utterance_id, failure.rows) == (1, "u1", 1)
    assert failure.error == "TimeoutError: no answer"
    assert "heard anew, one at a time" in caplog.text


def test_a_row_that_breaks_twice_is_unscored_and_the_result_incomplete(tmp_path: Path) -> None:
    """Red when rows are tried for ever, or the second failure becomes a score."""
    asr = Flaky(RIGHT)
    asr.faults = 2
    rows, summary = (result := score(run_of(tmp_path, 3), asr)).rows, result.summary
    assert [row.outcome for row in rows] == [Outcome.SCORED, Outcome.UNSCORED, Outcome.SCORED]
    assert asr.heard.count(1) == 2
    assert (summary.complete, summary.unscored_by_cause) == (False, {"asr_error": 1})
    assert summary.first_asr_failure is not None


def test_a_recogniser_that_never_breaks_is_asked_once_and_leaves_no_failure(tmp_path: Path) -> None:
    """Red when rows are heard twice for nothing."""
    asr = FakeAsr(dict(RIGHT))
    assert score(run_of(tmp_path, 3), asr).summary.first_asr_failure is None
    assert asr.heard == [0, 1, 2]


def test_protocols_that_pin_the_same_ear_share_one_hearing(tmp_path: Path) -> None:
    """Red when each protocol asks the recogniser for itself, or one text rule is used for both."""
    asr = FakeAsr({0: "One two three", 1: "one two tree"})
    plain, other = protocol(asr), protocol(asr, "fake-2")
    done: list[tuple[int, int]] = []
    scores = score_wer(run_of(tmp_path, 2), [plain, other], lambda *seen: done.append(seen))
    assert (list(scores), asr.heard, asr.opened) == (["fake-1", "fake-2"], [0, 1], 1)
    assert done == [(1, 2), (2, 2)]
    assert [row.protocol_id for score in scores.values() for row in score.rows] == ["fake-1"] * 2 + ["fake-2"] * 2


def test_another_model_or_another_audio_handling_is_another_ear(tmp_path: Path) -> None:
    """Red when sharing looks at the recogniser's name alone."""
    asr, other = FakeAsr(dict(RIGHT)), FakeAsr(dict(RIGHT), weights="other")
    protocols = [protocol(asr), protocol(asr, "fake-2", resampler=Resampler.FFT), protocol(other, "fake-3")]
    scores = score_wer(run_of(tmp_path, 2), protocols)
    assert (asr.heard, other.heard) == ([0, 1, 0, 1], [0, 1])
    assert len({score.summary.recogniser_sha256 for score in scores.values()}) == 3


def test_a_second_scoring_opens_no_recogniser(tmp_path: Path) -> None:
    """Red when a known transcript is asked for again, or the model is loaded for nothing."""
    source, cache = run_of(tmp_path / "run", 3), TranscriptCache(tmp_path / "cache")
    first = score(source, FakeAsr({**RIGHT, 2: ""}), cache)
    asr = FakeAsr({})
    again = score(source, asr, cache)
    assert (asr.opened, asr.heard) == (0, [])
    assert again.rows == first.rows
    assert (first.summary.rows_from_cache, again.summary.rows_from_cache) == (0, 3)
    assert again.summary.all_rows == first.summary.all_rows


def test_changed_audio_is_heard_again_and_only_that(tmp_path: Path) -> None:
    """Red when transcripts go by row or by name of the file."""
    source, cache = run_of(tmp_path / "run", 3), TranscriptCache(tmp_path / "cache")
    score(source, FakeAsr(dict(RIGHT)), cache)
    rows = [spoken(tmp_path / "run", i, TEXT) for i in range(2)]
    rows.append(spoken(tmp_path / "run", 2, TEXT, wav_bytes(tone(length_of(2), 0.2))))
    asr = FakeAsr({2: "one"})
    result = score(RunSource.open(write_run(tmp_path / "run", rows)), asr, cache)
    assert (asr.heard, [row.transcript for row in result.rows][2]) == ([2], "one")


def test_a_changed_model_hears_everything_again(tmp_path: Path) -> None:
    """Red when the model's files are not part of the key: yesterday's words would pass for the new model's."""
    source, cache = run_of(tmp_path / "run", 2), TranscriptCache(tmp_path / "cache")
    score(source, FakeAsr(dict(RIGHT)), cache)
    asr = FakeAsr({0: "new", 1: "words"}, weights="newer")
    assert [row.transcript for row in score(source, asr, cache).rows] == ["new", "words"]


def test_what_was_heard_one_at_a_time_never_mixes_with_the_usual_way(tmp_path: Path) -> None:
    """After a failure row 0 is heard anew: red when that lands among the usual transcripts, which a run without the row
    that broke is still heard by, or is not kept at all.
    """
    source, cache = run_of(tmp_path / "run", 2), TranscriptCache(tmp_path / "cache")

    class Shifting(Flaky):
        def transcribe(self, clip: Clip) -> str:
            return f"{super().transcribe(clip)} {len(self.heard)}"

    broken = Shifting(RIGHT)
    assert [row.transcript for row in score(source, broken, cache).rows] == ["one two three 3", "one two three 4"]
    sound = FakeAsr({})
    assert [row.transcript for row in score(source, sound, cache).rows] == ["one two three 3", "one two three 4"]
    alone = score(run_of(tmp_path / "alone", 1), sound, cache)
    assert [row.transcript for row in alone.rows] == ["one two three 1"]
    assert (sound.heard, alone.summary.first_asr_failure) == ([], None)


def test_a_scoring_after_a_failure_gives_the_same_figures_and_names_it(tmp_path: Path) -> None:
    """What is heard one at a time reads otherwise here, and row 2 breaks there too. Red when the second scoring takes
    the first round's survivors and patches the broken row, or when the failure is not kept (no `failures.add`); and
    when it is kept by row, so that the same audio in another run is heard otherwise.
    """

    class Shifting(FakeAsr):
        def transcribe(self, clip: Clip) -> str:
            words = super().transcribe(clip)
            if len(clip.samples) == length_of(1) and self.heard.count(1) == 1:
                raise TimeoutError("no answer")
            return words if len(self.heard) <= 4 else "one two"

    source, cache = run_of(tmp_path / "run", 4), TranscriptCache(tmp_path / "cache")
    first = score(source, Shifting({**RIGHT, 2: RuntimeError("never")}), cache)
    assert (first.summary.rows_scored, first.summary.rows_unscored) == (3, 1)
    assert [row.transcript for row in first.rows] == ["one two", "one two", None, "one two"]
    again = score(source, asr := FakeAsr({2: RuntimeError("never")}), cache)
    assert asr.heard == [2], "one that broke on its own is tried again, and only that"
    assert again.rows == first.rows
    changing = {"scored_at": first.summary.scored_at, "rows_from_cache": 0}
    assert again.summary.revised(**changing) == first.summary
    failure = again.summary.first_asr_failure
    assert failure is not None
    assert (failure.row_index, failure.error, failure.rows) == (1, "TimeoutError: no answer", 2)
    other = tmp_path / "other"
    other.mkdir()
    rows = [
        spoken(other, 0, TEXT, wav_bytes(tone(length_of(1)))),
        spoken(other, 1, TEXT, wav_bytes(tone(length_of(0)))),
    ]
    moved = score(RunSource.open(write_run(other, rows)), FakeAsr({}), cache)
    assert [row.transcript for row in moved.rows] == ["one two"] * 2
    assert moved.summary.first_asr_failure == failure.revised(row_index=0, utterance_id="u0", rows=1)


def test_what_an_endpoint_hears_is_not_kept(tmp_path: Path) -> None:
    """Red when a recogniser whose model can change unseen answers from the cache."""
    source, cache = run_of(tmp_path / "run", 1), TranscriptCache(tmp_path / "cache")
    for _ in range(2):
        asr = FakeAsr(dict(RIGHT), cacheable=False)
        score(source, asr, cache)
        assert asr.heard == [0]
    assert not (tmp_path / "cache").exists()


def test_a_run_without_sound_needs_no_recogniser(tmp_path: Path) -> None:
    """Red when the model is loaded to hear nothing."""
    rows = [spoken(tmp_path, index, TEXT, wav_bytes(0 * tone(5000))) for index in range(2)]
    asr = FakeAsr({})
    result = score(RunSource.open(write_run(tmp_path, rows, manifest(rows=2))), asr)
    assert (asr.opened, result.summary.charged_by_cause) == (0, {"silent": 2})


def test_all_that_is_missing_is_said_before_any_row_is_heard(tmp_path: Path) -> None:
    """Red when the first missing recogniser hides the second, or rows are heard in between."""

    class Absent(FakeAsr):
        def versions(self) -> dict[str, str]:
            raise InvalidInput(Problem("recogniser", f"the package {self.weights}", "not installed"))

    asr = FakeAsr(dict(RIGHT))
    absent = [protocol(Absent({}, weights=name), name) for name in ("whisper", "funasr")]
    with pytest.raises(InvalidInput) as caught:
        score_wer(run_of(tmp_path, 1), [protocol(asr), *absent])
    assert [problem.expected for problem in caught.value.problems] == ["the package whisper", "the package funasr"]
    assert asr.heard == []


def test_a_protocol_given_twice_is_refused(tmp_path: Path) -> None:
    """Red when one silently replaces the other in the result."""
    asr = FakeAsr(dict(RIGHT))
    with pytest.raises(InvalidInput, match="each protocol once"):
        score_wer(run_of(tmp_path, 1), [protocol(asr), protocol(asr)])
