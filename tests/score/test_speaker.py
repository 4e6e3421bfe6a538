"""From a run folder to similarities: every row is in the result, and nothing that was not measured has a figure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue

from tests.records.builders import counts, manifest, request_without_audio
from tests.score.runs import spoken, wav_bytes, write_run
from ttsbench.assets import asset_folder
from ttsbench.records import (
    NamedVoiceRecord,
    ReferenceVoiceRecord,
    RequestRecord,
    RowStatus,
    RunManifest,
    RunStatus,
    sha256_of,
)
from ttsbench.records.speaker import SimilarityStats, SpeakerRow, SpeakerSummary
from ttsbench.score.source import RunSource
from ttsbench.score.speaker import judge_speaker
from ttsbench.score.speaker.compare import summarise
from ttsbench.score.speaker.ge2e import Ge2eEncoder

RATE_HZ = 16_000
BANDS_HZ = (400, 1000, 2500)
LOW, MIDDLE, HIGH = np.eye(3)
"""Voices: how strong each band is."""
MUTE = 5000
"""A tone at this frequency is what `Bands` breaks on."""


def sound(*voices: np.ndarray, rate_hz: int = RATE_HZ, seconds: float = 3.0, level: float = 0.05) -> np.ndarray:
    """The voices one after another, `seconds` in all."""
    time = np.arange(round(rate_hz * seconds / len(voices))) / rate_hz
    tones = [np.sin(2 * np.pi * hz * time) for hz in BANDS_HZ]
    parts = [sum(weight * one for weight, one in zip(voice, tones, strict=True)) for voice in voices]
    return (level * np.concatenate(parts)).astype(np.float32)


@dataclass
class Bands:
    """Hears a voice in the strength of three bands, so that cosines are known."""

    name: str = "bands"
    heard_s: list[float] = field(default_factory=list)

    def pinned(self) -> dict[str, JsonValue]:
        return {"model": self.name}

    def embed(self, samples: np.ndarray) -> np.ndarray:
        self.heard_s.append(len(samples) / RATE_HZ)
        power = np.abs(np.fft.rfft(samples))
        at = [round(hz * len(samples) / RATE_HZ) for hz in (*BANDS_HZ, MUTE)]
        *bands, mute = (power[max(0, place - 3) : place + 4].max() for place in at)
        if mute > max(bands):
            raise RuntimeError("out of memory")
        return np.asarray(np.array(bands) / np.linalg.norm(bands), np.float32)


def clip(folder: Path, name: str, voice: np.ndarray) -> ReferenceVoiceRecord:
    """A reference clip on disk."""
    data = wav_bytes(sound(voice, rate_hz=24_000), 24_000)
    path = folder / f"{name}.wav"
    path.write_bytes(data)
    return ReferenceVoiceRecord(audio=str(path), audio_sha256=sha256_of(data), transcript=None)


def says(run: Path, row: int, samples: np.ndarray, voice: ReferenceVoiceRecord | NamedVoiceRecord) -> RequestRecord:
    return spoken(run, row, "One, two.", wav_bytes(samples, RATE_HZ), voice=voice)


def judge(
    run: Path, rows: list[RequestRecord], made: RunManifest | None = None
) -> tuple[tuple[SpeakerRow, ...], SpeakerSummary]:
    write_run(run, rows, made)
    return judge_speaker(RunSource.open(run), Bands())


def mean(stats: SimilarityStats | None) -> float:
    assert stats is not None
    return stats.mean_x100


def near(value: float) -> object:
    """Half a point of 100: the bands of a finite tone leak into each other."""
    return pytest.approx(value, abs=0.5)


def test_a_row_is_compared_with_its_own_clip_and_the_nearest_other(tmp_path: Path) -> None:
    """Red when rows are compared with the wrong clip, or a foreign clip may be the own one.

    Row 0 has its voice; row 1 is half another voice (cosine 0.6 with its own, 0.8 with that); row 2 is all another.
    """
    low, middle = clip(tmp_path, "low", LOW), clip(tmp_path, "middle", MIDDLE)
    rows, summary = judge(
        tmp_path,
        [
            says(tmp_path, 0, sound(LOW), low),
            says(tmp_path, 1, sound(0.6 * LOW + 0.8 * MIDDLE), low),
            says(tmp_path, 2, sound(LOW), middle),
        ],
    )
    assert [row.similarity_x100 for row in rows] == [near(100), near(60), near(0)]
    assert [row.foreign_similarity_x100 for row in rows] == [near(0), near(80), near(100)]
    assert [row.foreign_voice for row in rows] == [middle.audio, middle.audio, low.audio]
    assert [row.foreign_above_own for row in rows] == [False, True, True]
    assert [row.echo_suspected for row in rows] == [True, False, False]
    assert (summary.references, summary.rows_foreign_above_own, summary.rows_echo_suspected) == (2, 2, 1)
    assert mean(summary.similarity) == near(160 / 3)
    assert mean(summary.foreign_similarity) == near(60)


def test_the_head_is_the_first_two_seconds_of_speech(tmp_path: Path) -> None:
    """Two seconds of silence, 1.5 s in the voice, 1.5 s in another: the head is three quarters in the voice.

    Its cosine is 1.5 / sqrt(1.5^2 + 0.5^2) = 0.949, the whole row's 0.707. Red when the head starts with the file
    (silence would fill it), or is the whole.
    """
    low = clip(tmp_path, "low", LOW)
    samples = np.concatenate([np.zeros(2 * RATE_HZ, np.float32), sound(LOW, MIDDLE)])
    rows, summary = judge(tmp_path, [says(tmp_path, 0, samples, low)])
    assert rows[0].similarity_x100 == pytest.approx(70.7, abs=3)
    assert rows[0].head_similarity_x100 == pytest.approx(94.9, abs=3)
    assert mean(summary.head_similarity) == rows[0].head_similarity_x100
    assert rows[0].speech_s == pytest.approx(3.1, abs=0.02)  # and the 100 ms before it


def test_one_clip_in_the_run_has_no_foreign_one(tmp_path: Path) -> None:
    """Red when no data becomes a number: 0, or the own clip."""
    low = clip(tmp_path, "low", LOW)
    rows, summary = judge(tmp_path, [says(tmp_path, row, sound(LOW), low) for row in range(2)])
    assert [row.foreign_similarity_x100_missing for row in rows] == ["the run has one reference clip"] * 2
    assert (summary.foreign_similarity, summary.rows_foreign_above_own) == (None, None)
    assert summary.foreign_similarity_missing == "the run has one reference clip"


def test_a_named_voice_has_no_similarity_but_is_consistent_or_not(tmp_path: Path) -> None:
    """Ann speaks three rows, the last in Bob's voice; Bob two. Similarity is n/a, and consistency tells.

    Red when a named voice gets a similarity, or a row meets itself in its own voice's mean (100 for each row of two).
    """
    ann, bob = (NamedVoiceRecord(speaker=name, instruct=None) for name in ("ann", "bob"))
    said = [(LOW, ann), (0.8 * LOW + 0.6 * HIGH, ann), (MIDDLE, ann), (MIDDLE, bob), (MIDDLE, bob)]
    rows, summary = judge(tmp_path, [says(tmp_path, row, sound(voice), who) for row, (voice, who) in enumerate(said)])
    assert {row.similarity_x100 for row in rows} == {None}
    assert {row.similarity_x100_missing for row in rows} == {"n/a: the voice has no reference clip"}
    assert [(row.head_similarity_x100, row.foreign_voice) for row in rows] == [(None, None)] * 5
    assert [row.nearest_voice for row in rows] == ["ann", "ann", "bob", "bob", "bob"]
    assert rows[0].consistency_x100 == near(100 * 0.8 / 2**0.5)  # with 0.8 LOW + 1 MIDDLE + 0.6 HIGH
    assert (rows[2].consistency_x100, rows[3].consistency_x100) == (near(0), near(100))
    assert (summary.coverage.rows_measured, summary.rows_without_reference, summary.voices) == (5, 5, 2)
    assert (summary.rows_told_by_voice, summary.rows_nearest_own_voice) == (5, 4)
    assert (summary.similarity, summary.rows_echo_suspected) == (None, None)
    assert summary.similarity_missing == "n/a: the voice has no reference clip"


def test_the_only_row_of_a_voice_has_nothing_to_be_consistent_with(tmp_path: Path) -> None:
    """Red when the mean of no rows is 0, or the row itself."""
    rows, summary = judge(
        tmp_path, [says(tmp_path, 0, sound(LOW), NamedVoiceRecord(speaker="ann", instruct="as if in a hurry"))]
    )
    assert rows[0].consistency_x100_missing == rows[0].nearest_voice_missing == "the only measured row of its voice"
    assert (summary.consistency, summary.consistency_missing) == (None, "the only measured row of its voice")
    assert summary.rows_told_by_voice is None


def test_every_failure_has_its_own_cause_and_no_similarity(tmp_path: Path) -> None:
    """Red when a kind of failure is a similarity of 0, is skipped, is merged with another, or ends the scoring."""
    low, gone, other = (clip(tmp_path, name, LOW + number * HIGH) for number, name in enumerate(("low", "gone", "x")))
    mute, brief = (clip(tmp_path, name, HIGH) for name in ("mute", "brief"))
    Path(gone.audio).unlink()
    Path(other.audio).write_bytes(wav_bytes(sound(HIGH)))
    mute = stored(mute, wav_bytes(np.zeros(RATE_HZ)))
    brief = stored(brief, wav_bytes(sound(LOW, seconds=0.2)))
    broken = stored(clip(tmp_path, "broken", HIGH), b"RIFF")
    breaks = 0.1 * np.sin(2 * np.pi * MUTE * np.arange(3 * RATE_HZ) / RATE_HZ)
    without_audio = (RowStatus.EMPTY, RowStatus.CANCELLED, RowStatus.FAILED, RowStatus.INVALID)
    rows = [
        says(tmp_path, 0, sound(LOW), low),
        *(request_without_audio(i, status, voice=low) for i, status in enumerate(without_audio, start=1)),
        says(tmp_path, 5, np.zeros(RATE_HZ), low),
        says(tmp_path, 6, sound(LOW, seconds=0.2), low),
        says(tmp_path, 7, sound(LOW), low),
        says(tmp_path, 8, sound(LOW), low),
        says(tmp_path, 9, sound(LOW), low),
        says(tmp_path, 10, sound(LOW), gone),
        says(tmp_path, 11, sound(LOW), other),
        says(tmp_path, 12, breaks, low),
        says(tmp_path, 13, sound(LOW), mute),
        says(tmp_path, 14, sound(LOW), brief),
        says(tmp_path, 15, sound(LOW), broken),
    ]
    (tmp_path / "wav" / "u7.wav").unlink()
    (tmp_path / "wav" / "u8.wav").write_bytes(b"RIFF")
    (tmp_path / "wav" / "u9.wav").write_bytes(wav_bytes(sound(HIGH)))
    made = manifest(rows=17, status=RunStatus.INTERRUPTED, counts=counts(17, ok=12))
    found, summary = judge(tmp_path, rows, made)
    assert {row.row_index: row.cause for row in found} == {
        0: None,
        1: "empty",
        2: "cancelled",
        3: "failed",
        4: "invalid",
        5: "silent",
        6: "short",
        7: "missing_wav",
        8: "undecodable",
        9: "wav_mismatch",
        10: "reference_missing",
        11: "reference_changed",
        12: "encoder_error",
        13: "reference_silent",
        14: "reference_short",
        15: "reference_undecodable",
        16: "missing_record",
    }
    assert {row.similarity_x100 for row in found[1:]} == {row.consistency_x100 for row in found[1:]} == {None}
    coverage = summary.coverage
    assert (coverage.rows_expected, coverage.rows_measured, coverage.rows_failed) == (17, 1, 9)
    assert (coverage.rows_missing, coverage.rows_unscored, coverage.complete) == (1, 6, False)
    assert mean(summary.similarity) == near(100)
    assert "put the clip back" in str(found[10].cause_detail)
    assert found[12].cause_detail == "RuntimeError: out of memory"


def stored(voice: ReferenceVoiceRecord, data: bytes) -> ReferenceVoiceRecord:
    """The clip's bytes replaced, and its record made to fit."""
    Path(voice.audio).write_bytes(data)
    return voice.revised(audio_sha256=sha256_of(data))


def test_a_run_of_nothing_measurable_has_no_figure(tmp_path: Path) -> None:
    """Red when the mean of no rows is a number, or raises."""
    rows, summary = judge(tmp_path, [request_without_audio(0, RowStatus.FAILED)])
    assert rows[0].cause == "failed"
    assert (summary.similarity, summary.consistency, summary.rows_short) == (None, None, 0)
    assert summary.similarity_missing == summary.consistency_missing == "no row could be measured"


def test_failed_rows_leave_the_figures_of_the_others_alone(tmp_path: Path) -> None:
    """Row 1's clip is foreign to row 0 whether row 1 went well or not. Red when a failure removes a foreign clip."""
    low, middle = clip(tmp_path, "low", LOW), clip(tmp_path, "middle", MIDDLE)
    both = [says(tmp_path, 0, sound(LOW), low), says(tmp_path, 1, sound(MIDDLE), middle)]
    well, _ = judge(tmp_path, both)
    (tmp_path / "wav" / "u1.wav").unlink()
    badly, summary = judge(tmp_path, both)
    assert badly[0].foreign_similarity_x100 == well[0].foreign_similarity_x100
    assert (summary.references, summary.coverage.rows_measured) == (2, 1)


def test_rows_with_under_a_second_of_speech_are_counted(tmp_path: Path) -> None:
    """0.8 s of speech in 6 s of file: red when the file's length is what counts."""
    low = clip(tmp_path, "low", LOW)
    padded = np.pad(sound(LOW, seconds=0.6), (2 * RATE_HZ, 3 * RATE_HZ))
    _, summary = judge(tmp_path, [says(tmp_path, 0, padded, low), says(tmp_path, 1, sound(LOW), low)])
    assert summary.rows_short == 1


def test_a_clip_is_heard_once_however_many_rows_it_serves(tmp_path: Path) -> None:
    """Red when the reference is embedded anew for every row: half as much again of the scorer's time."""
    low = clip(tmp_path, "low", LOW)
    write_run(tmp_path, [says(tmp_path, row, sound(LOW), low) for row in range(5)])
    encoder = Bands()
    judge_speaker(RunSource.open(tmp_path), encoder)
    assert len(encoder.heard_s) == 1 + 2 * 5


def test_the_figures_are_bound_to_what_made_them(tmp_path: Path) -> None:
    """Red when another encoder gives figures under the same hash, or the files' hashes are not in the record."""
    write_run(tmp_path, [says(tmp_path, 0, sound(LOW), clip(tmp_path, "low", LOW))])
    source = RunSource.open(tmp_path)
    hashes = {judge_speaker(source, Bands(name))[1].scorer_sha256 for name in ("bands", "other")}
    assert len(hashes) == 2
    real = judge_speaker(source, Ge2eEncoder.load())[1]
    assert "75ea12a158fc" in json.dumps(real.scorer)
    assert judge_speaker(source, Ge2eEncoder.load()) == judge_speaker(source, Ge2eEncoder.load())


def test_the_interval_of_the_mean_is_the_textbook_one_for_many_rows() -> None:
    """400 rows of deviation 5: the mean's 95 % interval is 0.98 wide, to 10 % (10,000 resamples leave 2 %).

    Red when the percentiles are of the rows and not of the mean (20 wide), or the draws are not as many as the rows.
    """
    values = 70 + 5 * np.random.default_rng(0).standard_normal(400)
    stats = summarise(list(values))
    assert stats is not None
    assert stats.mean_low_x100 is not None
    assert stats.mean_high_x100 is not None
    assert stats.mean_high_x100 - stats.mean_low_x100 == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)
    assert stats.mean_low_x100 < stats.mean_x100 < stats.mean_high_x100
    assert (np.array(values) < stats.p5_x100).sum() == 20
    assert summarise(list(values)) == stats


def test_one_row_has_a_mean_without_an_interval() -> None:
    """Red when one row's interval has no width, as if its mean were certain."""
    stats = summarise([70.0, None])
    assert stats is not None
    assert (stats.rows, stats.mean_x100, stats.mean_low_x100, stats.mean_low_x100_missing) == (1, 70, None, "one row")
    assert summarise([None]) is None


def test_the_real_encoder_tells_a_foreign_voice(tmp_path: Path) -> None:
    """Each bundled clip as a row of its own voice, but that two have changed places.

    Red when the judge hands the encoder audio at the clips' 24 kHz, or swaps vectors.
    """
    paths = sorted((asset_folder("mini_en") / "en" / "prompt-wavs").glob("*.wav"))
    voices = [
        ReferenceVoiceRecord(audio=str(p), audio_sha256=sha256_of(p.read_bytes()), transcript=None) for p in paths
    ]
    order = [1, 0, *range(2, len(paths))]
    write_run(
        tmp_path,
        [
            spoken(tmp_path, row, "One.", paths[order[row]].read_bytes(), voice=voice)
            for row, voice in enumerate(voices)
        ],
    )
    rows, summary = judge_speaker(RunSource.open(tmp_path), Ge2eEncoder.load())
    assert flagged(row.foreign_above_own for row in rows) == [0, 1]
    assert [rows[0].foreign_voice, rows[1].foreign_voice] == [str(paths[1]), str(paths[0])]
    assert flagged(row.echo_suspected for row in rows) == list(range(2, len(paths)))
    assert summary.rows_echo_suspected == len(paths) - 2


def flagged(flags: Iterable[bool | None]) -> list[int]:
    return [row for row, flag in enumerate(flags) if flag]
