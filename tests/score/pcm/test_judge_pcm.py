"""From a run folder to the audit: every row is in it, and findings do not depend on how a clip was stored."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
import soxr

from tests.records.builders import manifest, request_without_audio
from tests.score.pcm.sounds import HOP, RATE_HZ, VOICES, amplitude, loud_edge, speech
from tests.score.runs import FakeAsr, fake_protocol, spoken, wav_bytes, write_run
from ttsbench.records import Coverage, RowStatus
from ttsbench.records.pcm import FaultKind, PcmFinding, PcmRow, PcmSummary
from ttsbench.records.wav import to_pcm16
from ttsbench.score.pcm import judge, judge_pcm
from ttsbench.score.pcm.signal import sounding
from ttsbench.score.run import score_wer
from ttsbench.score.source import RunSource

TEXT = "one two three"


def audited(run_dir: Path) -> tuple[tuple[PcmRow, ...], PcmSummary]:
    return judge_pcm(RunSource.open(run_dir))


def stored(run_dir: Path, clips: list[tuple[np.ndarray, int]]) -> tuple[PcmRow, ...]:
    rows = [spoken(run_dir, index, TEXT, wav_bytes(*clip)) for index, clip in enumerate(clips)]
    return audited(write_run(run_dir, rows))[0]


def test_every_row_is_in_the_audit(tmp_path: Path) -> None:
    """Red when a row without audio is skipped, clean, or ends the audit."""
    stereo = np.stack([speech(), speech()], axis=1)
    rows = [
        spoken(tmp_path, 0, TEXT, wav_bytes(speech(), RATE_HZ)),
        spoken(tmp_path, 1, TEXT, wav_bytes(speech(), RATE_HZ)),
        request_without_audio(2, RowStatus.FAILED),
        spoken(tmp_path, 3, TEXT, wav_bytes(np.zeros(48_000), RATE_HZ)),
        spoken(tmp_path, 4, TEXT, wav_bytes(stereo, RATE_HZ)),
        spoken(tmp_path, 5, TEXT, wav_bytes(speech(), RATE_HZ)),
    ]
    write_run(tmp_path, rows, manifest(rows=7))
    (tmp_path / "wav" / "u1.wav").unlink()
    (tmp_path / "wav" / "u5.wav").write_bytes(b"RIFF")
    judged, summary = audited(tmp_path)
    assert [(row.row_index, row.status, row.cause) for row in judged] == [
        (0, "measured", None),
        (1, "failed", "missing_wav"),
        (2, "failed", "failed"),
        (3, "measured", None),
        (4, "measured", None),
        (5, "failed", "undecodable"),
        (6, "missing", "missing_record"),
    ]
    assert [one.kind for one in judged[3].findings or ()] == [FaultKind.SILENCE]
    assert summary.coverage == Coverage(
        rows_expected=7,
        rows_measured=3,
        rows_failed=3,
        rows_missing=1,
        rows_unscored=0,
        failed_by_cause={"failed": 1, "missing_wav": 1, "undecodable": 1},
        unscored_by_cause={},
    )
    assert summary.rows_by_kind[FaultKind.SILENCE] == 1
    assert set(summary.rows_by_kind) == set(FaultKind)


def test_broken_audio_has_one_cause_for_every_scorer(tmp_path: Path) -> None:
    """Not a WAV, another WAV, one that its record counts otherwise, an empty one. Red when the audit reads files its
    own way: the first is `wav_mismatch` if hashes come first, the third is measured if they are all that is compared.
    """
    data = wav_bytes(speech(), RATE_HZ)
    rows = [spoken(tmp_path, index, TEXT, data) for index in range(4)]
    rows[2] = rows[2].revised(sample_rate_hz=44_100, duration_s=rows[2].samples / 44_100)
    (tmp_path / "wav" / "u0.wav").write_bytes(b"RIFF")
    for index, samples in ((1, speech("bf_emma")), (3, np.zeros(0))):
        (tmp_path / "wav" / f"u{index}.wav").write_bytes(wav_bytes(samples, RATE_HZ))
    judged, _ = audited(write_run(tmp_path, rows))
    words = score_wer(RunSource.open(tmp_path), [fake_protocol(FakeAsr({}))])["fake-1"].rows
    assert [row.cause for row in judged] == ["undecodable", "wav_mismatch", "wav_mismatch", "wav_mismatch"]
    assert [(row.cause, row.cause_detail) for row in words] == [(row.cause, row.cause_detail) for row in judged]


def test_samples_that_are_no_numbers_are_heard_by_the_audit_alone(tmp_path: Path) -> None:
    """Red when NaN keeps a row from the audit, whose finding it is, or comes to a recogniser."""
    samples = speech().astype(np.float32)
    samples[30_000] = np.nan
    write_run(tmp_path, [spoken(tmp_path, 0, TEXT, wav_bytes(samples, RATE_HZ, "FLOAT"))])
    (row,), _ = audited(tmp_path)
    assert FaultKind.NOT_FINITE in {one.kind for one in row.findings or ()}
    (heard,) = score_wer(RunSource.open(tmp_path), [fake_protocol(FakeAsr({}))])["fake-1"].rows
    assert heard.cause == "undecodable"


def test_a_detector_that_breaks_leaves_the_row_unscored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a broken detector ends the audit or passes for a clean row."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("it broke")

    monkeypatch.setattr(judge, "hear", broken)
    (row,), summary = audited(write_run(tmp_path, [spoken(tmp_path, 0, TEXT, wav_bytes(speech(), RATE_HZ))]))
    assert (row.status, row.cause, row.cause_detail) == ("unscored", "audit_error", "ZeroDivisionError: it broke")
    assert summary.coverage.rows_unscored == 1
    assert not summary.coverage.complete


def test_hop_comes_from_the_engines_record(tmp_path: Path) -> None:
    """2 s at a hop of 1,920 and of 2,048 samples. Red when the hop is a constant."""
    data = wav_bytes(speech()[: 25 * HOP], RATE_HZ)
    engine = manifest().engine
    for hop, whole in ((1920, True), (2048, False)):
        made = manifest(rows=1, engine=engine.revised(hop_samples=hop))
        (row,), summary = audited(write_run(tmp_path, [spoken(tmp_path, 0, TEXT, data)], made))
        assert (row.whole_frames, summary.rows_of_broken_frames) == (whole, int(not whole))


def test_frame_edges_follow_the_engines_hop(tmp_path: Path) -> None:
    """A small click at an edge of 2,048-sample frames. Red when edges lie where another engine has them."""
    hop, samples = 2048, speech().copy()
    at = max(range(10 * hop, 40 * hop, hop), key=lambda at: np.square(samples[at - 480 : at + 480]).sum())
    samples[at : at + 480] += 3 * amplitude(samples) * np.exp(-np.arange(480) / 12)
    clips = [samples, *(speech(voice) for voice in VOICES)]
    rows = [spoken(tmp_path, index, TEXT, wav_bytes(clip, RATE_HZ)) for index, clip in enumerate(clips)]
    engine = manifest().engine.revised(hop_samples=hop)
    judged, _ = audited(write_run(tmp_path, rows, manifest(rows=len(rows), engine=engine)))
    clicks = [one.start_s for one in judged[0].findings or () if one.kind is FaultKind.CLICK]
    assert any(abs(start_s - at / RATE_HZ) < 1e-4 for start_s in clicks)


def test_a_row_that_lost_a_third_of_its_length_is_too_short(tmp_path: Path) -> None:
    """Lengths alone, of tones. Red when rows are held against a fixed rate of speech."""
    rng = np.random.default_rng(0)
    rows = []
    for index in range(24):
        text = "x" * (30 + 2 * index)
        seconds = (0.8 + 0.05 * len(text)) * (0.55 if index == 7 else 1.0)
        noise = 0.1 * rng.standard_normal(round(seconds * RATE_HZ))
        rows.append(spoken(tmp_path, index, text, wav_bytes(noise, RATE_HZ)))
    judged, _ = audited(write_run(tmp_path, rows))
    short = [row.row_index for row in judged if FaultKind.TOO_SHORT in {one.kind for one in row.findings or ()}]
    assert short == [7]


def as_heard(findings: tuple[PcmFinding, ...] | None, shift_s: float = 0.0) -> list[tuple[FaultKind, float]]:
    """Kind and place of the findings that must not change, to 5 ms."""
    kept = (FaultKind.REPEAT, FaultKind.DROPOUT)
    return [(one.kind, round((one.start_s - shift_s) / 0.005)) for one in findings or () if one.kind in kept]


def test_findings_do_not_change_with_gain_padding_or_rate(tmp_path: Path) -> None:
    """A hole of 80 ms and a replay of 400 ms, and each clip clean. A place may move by 10 ms, the block that replays
    are compared by.

    Red when a bar is absolute, a level is a percentile of frames, or a length is in samples of the file.
    """
    clips = []
    for voice in VOICES[:2]:
        samples = speech(voice)
        hole = samples.copy()
        hole[loud_edge(samples) :][:1920] = 0
        replay = np.concatenate([samples[:40_000], samples[30_400:]])
        clips += [samples, hole, replay]
    plain = [as_heard(row.findings) for row in stored(tmp_path, [(clip, RATE_HZ) for clip in clips])]
    assert [[kind for kind, _ in row] for row in plain] == [[], [FaultKind.DROPOUT], [FaultKind.REPEAT]] * 2
    changed = {
        "gain": ([(clip * 0.5, RATE_HZ) for clip in clips], 0.0),
        "padding": ([(np.pad(clip, 36_000), RATE_HZ) for clip in clips], 1.5),
        "padding behind": ([(np.pad(clip, (0, 36_000)), RATE_HZ) for clip in clips], 0.0),
        "rate": ([(soxr.resample(clip, RATE_HZ, 44_100), 44_100) for clip in clips], 0.0),
    }
    for name, (other, shift_s) in changed.items():
        heard = [as_heard(row.findings, shift_s) for row in stored(tmp_path, other)]
        assert [[kind for kind, _ in row] for row in heard] == [[kind for kind, _ in row] for row in plain], name
        for one, was in zip(heard, plain, strict=True):
            assert [place for _, place in one] == pytest.approx([place for _, place in was], abs=2), name


def run_with_faults() -> list[tuple[str, np.ndarray]]:
    """Texts and clips of twelve rows at one pace, without a silent sample at either end: row 5 has lost 45 % out of its
    middle, row 8 has a click.
    """
    clips = []
    for index, seconds in enumerate((2.4, 3.2, 4.0) * len(VOICES)):
        samples = speech(VOICES[index // 3])
        first, end = sounding(to_pcm16(samples) / 32768.0)
        clips.append((round(30 * seconds) * "x", samples[first : min(end, first + round(seconds * RATE_HZ))].copy()))
    text, whole = clips[5]
    at = loud_edge(whole[: len(whole) // 2])
    clips[5] = (text, np.concatenate([whole[:at], whole[at + round(0.45 * len(whole)) :]]))
    samples = clips[8][1]
    at = loud_edge(samples)
    samples[at : at + 480] += 3 * amplitude(samples) * np.exp(-np.arange(480) / 12)
    return clips


def test_padding_hides_neither_short_rows_nor_joints(tmp_path: Path) -> None:
    """A row that lost 45 % with zeros behind, before or on both sides, alone or as all rows have them. Red when a row's
    length is that of its file: nothing is too short then, and a joint that lies under the bar is not named.
    """
    kinds = (FaultKind.TOO_SHORT, FaultKind.TOO_LONG, FaultKind.SPLICE, FaultKind.CLICK)
    clips = run_with_faults()

    def heard(before: int = 0, behind: int = 0, padded: Collection[int] = ()) -> list[list[tuple[FaultKind, float]]]:
        pads = [(before, behind) if index in padded else (0, 0) for index in range(len(clips))]
        rows = [
            spoken(tmp_path, index, text, wav_bytes(np.pad(samples, pads[index]), RATE_HZ))
            for index, (text, samples) in enumerate(clips)
        ]
        judged, _ = audited(write_run(tmp_path, rows))
        return [
            [(one.kind, round(one.start_s - pad / RATE_HZ, 3)) for one in row.findings or () if one.kind in kinds]
            for row, (pad, _) in zip(judged, pads, strict=True)
        ]

    plain = heard()
    assert {kind for kind, _ in plain[5]} >= {FaultKind.TOO_SHORT, FaultKind.SPLICE}
    assert FaultKind.CLICK in {kind for kind, _ in plain[8]}
    assert FaultKind.TOO_SHORT not in {kind for row in (*plain[:5], *plain[6:]) for kind, _ in row}
    lost = round(0.45 / 0.55 * len(clips[5][1]))
    for padding in ((0, lost), (lost, 0), (36_000, 36_000)):
        for padded in ({5}, range(len(clips))):
            assert heard(*padding, padded) == plain, (padding, padded)


def test_what_is_pinned_is_hashed_and_the_same_twice(tmp_path: Path) -> None:
    """Red when a bar is not pinned or the audit is not deterministic."""
    write_run(tmp_path, [spoken(tmp_path, 0, TEXT, wav_bytes(speech(), RATE_HZ))])
    once, again = audited(tmp_path), audited(tmp_path)
    assert once == again
    constants = once[1].scorer["constants"]
    assert isinstance(constants, dict)
    joints = constants["joints"]
    assert isinstance(joints, dict)
    assert joints["SPLICE_BAR"] == 0.9
