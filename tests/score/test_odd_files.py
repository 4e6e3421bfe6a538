"""Whatever lies in the wav folder is one clear row, and the scoring goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.records.builders import counts, manifest
from tests.score.runs import FakeAsr, fake_protocol, spoken, tone, wav_bytes, write_run
from ttsbench.records import Outcome, RowStatus, sha256_of
from ttsbench.score.asr import Clip
from ttsbench.score.run import WerScore, score_wer
from ttsbench.score.source import RunSource

TEXT = "One, two, three!"
SECOND = 16_000


@dataclass
class LengthAsr(FakeAsr):
    """Says for how many whole seconds it heard something."""

    def transcribe(self, clip: Clip) -> str:
        return f"{round(len(clip.samples) / SECOND)} seconds"


def score(run_dir: Path) -> WerScore:
    return score_wer(RunSource.open(run_dir), [fake_protocol(LengthAsr({}))])["fake-1"]


def test_every_odd_file_is_one_clear_row(tmp_path: Path) -> None:
    """Red when a file ends the scoring, is left out, is cut at 30 s, or is heard at a wrong rate."""
    stereo = np.stack([tone(2 * 44_100), np.zeros(2 * 44_100, np.float32)], axis=1)
    rows = [
        spoken(tmp_path, 0, TEXT),
        spoken(tmp_path, 1, TEXT),
        spoken(tmp_path, 2, TEXT, wav_bytes(np.zeros(3 * SECOND))),
        spoken(tmp_path, 3, TEXT, wav_bytes(tone(164 * SECOND)), status=RowStatus.LENGTH, finish_reason="length"),
        spoken(tmp_path, 4, TEXT, wav_bytes(stereo, 44_100)),
        spoken(tmp_path, 5, TEXT, wav_bytes(tone(5 * SECOND))),
        spoken(tmp_path, 6, TEXT, wav_bytes(tone(SECOND))),
    ]
    (tmp_path / "wav" / "u0.wav").write_bytes(b"RIFF\x00\x01 not a wav")
    (tmp_path / "wav" / "u1.wav").write_bytes(wav_bytes(np.zeros(0)))
    (tmp_path / "wav" / "u5.wav").rename(tmp_path / "wav" / "你好，世界.wav")
    rows[5] = rows[5].revised(wav_path="wav/你好，世界.wav", utterance_id="你好，世界")
    result = score(write_run(tmp_path, rows, manifest(rows=7, counts=counts(7, ok=6, length=1))))
    assert [(row.outcome, row.cause, row.transcript) for row in result.rows] == [
        (Outcome.CHARGED, "undecodable", None),
        (Outcome.CHARGED, "wav_mismatch", None),
        (Outcome.CHARGED, "silent", None),
        (Outcome.SCORED, None, "164 seconds"),
        (Outcome.SCORED, None, "2 seconds"),
        (Outcome.SCORED, None, "5 seconds"),
        (Outcome.SCORED, None, "1 seconds"),
    ]
    coverage = result.summary.coverage
    assert coverage is not None
    assert (coverage.rows_expected, coverage.rows_measured, coverage.rows_failed) == (7, 4, 3)
    assert coverage.failed_by_cause == {"silent": 1, "undecodable": 1, "wav_mismatch": 1}
    assert result.summary.rows_cut_at_length == 1


def test_an_empty_file_is_not_what_any_record_says(tmp_path: Path) -> None:
    """Its hash is the recorded one, but a row with audio has samples. Red when nothing reaches the recogniser."""
    empty = wav_bytes(np.zeros(0))
    row = spoken(tmp_path, 0, TEXT, empty, samples=1, duration_s=1 / SECOND)
    assert row.wav_sha256 == sha256_of(empty)
    result = score(write_run(tmp_path, [row]))
    assert (result.rows[0].cause, result.rows[0].cause_detail) == (
        "wav_mismatch",
        "wav/u0.wav holds 0 samples at 16000 Hz, recorded 1 samples at 16000 Hz",
    )


def test_the_ledger_has_every_row_under_one_heading(tmp_path: Path) -> None:
    """Scored, charged, without a record, broken recogniser: red when one counts twice, or as another."""

    class Broken(LengthAsr):
        def transcribe(self, clip: Clip) -> str:
            if len(clip.samples) == 2 * SECOND:
                raise MemoryError
            return super().transcribe(clip)

    seconds = {0: 1, 1: 2, 2: 3}
    rows = [spoken(tmp_path, i, TEXT, wav_bytes(tone(s * SECOND))) for i, s in seconds.items()]
    (tmp_path / "wav" / "u2.wav").unlink()
    source = RunSource.open(write_run(tmp_path, rows, manifest(rows=5)))
    summary = score_wer(source, [fake_protocol(Broken({}))])["fake-1"].summary
    coverage = summary.coverage
    assert coverage is not None
    assert (coverage.rows_measured, coverage.rows_failed, coverage.rows_missing, coverage.rows_unscored) == (1, 1, 2, 1)
    assert coverage.failed_by_cause == {"missing_wav": 1}
    assert not coverage.complete


@pytest.mark.parametrize("length_s", [0.001, 0.01])
def test_a_click_shorter_than_a_frame_is_heard(tmp_path: Path, length_s: float) -> None:
    """Red when the gate or a recogniser's padding fails on less than 20 ms."""
    row = spoken(tmp_path, 0, TEXT, wav_bytes(tone(round(length_s * SECOND), 0.5)))
    assert score(write_run(tmp_path, [row])).rows[0].transcript == "0 seconds"
