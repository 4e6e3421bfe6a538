"""Reference clips: what comes out of one, and what is refused with which code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from ttsbench.core import RowError
from ttsbench.corpus import load_reference_24k, read_reference
from ttsbench.corpus.reference import MAX_REFERENCE_S, MIN_REFERENCE_S


def tone(seconds: float, rate: int, hertz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def code(path: Path) -> str:
    with pytest.raises(RowError) as caught:
        read_reference(path)
    assert str(path) in str(caught.value)
    return caught.value.code


def test_samples_and_rate_are_those_of_the_file(tmp_path):
    wave = tone(1, 22_050)
    soundfile.write(tmp_path / "a.wav", wave, 22_050, subtype="FLOAT")
    samples, rate = read_reference(tmp_path / "a.wav")
    assert samples.dtype == np.float32
    assert rate == 22_050
    np.testing.assert_array_equal(samples, wave)


def test_channels_are_averaged(tmp_path):
    """Red when the first channel is taken, as some scorers do, or when rows and columns are mistaken for each other."""
    left, right = tone(1, 24_000), tone(1, 24_000, 880.0)
    soundfile.write(tmp_path / "a.wav", np.stack([left, right], axis=1), 24_000, subtype="FLOAT")
    samples, _ = read_reference(tmp_path / "a.wav")
    # One rounding of a float32 sum of at most 1.
    np.testing.assert_allclose(samples, (left + right) / 2, atol=1e-7)


@pytest.mark.parametrize(
    ("rate", "channels", "subtype"),
    [
        (8_000, 1, "PCM_16"),
        (16_000, 1, "PCM_16"),
        (24_000, 1, "PCM_U8"),
        (44_100, 2, "PCM_16"),
        (48_000, 1, "FLOAT"),
    ],
)
def test_24k_has_the_length_and_pitch_of_the_clip(tmp_path, rate, channels, subtype):
    """Speed follows the header's rate. Red when a clip's samples are taken for 24 kHz as they are."""
    soundfile.write(tmp_path / "a.wav", np.tile(tone(2, rate)[:, None], (1, channels)), rate, subtype=subtype)
    samples = load_reference_24k(tmp_path / "a.wav")
    # The resampler may round the length up or down by a sample.
    assert samples.dtype == np.float32
    assert abs(len(samples) - 48_000) <= 1
    spectrum = np.abs(np.fft.rfft(samples[:48_000] * np.hanning(len(samples[:48_000]))))
    # Two seconds of signal: one bin is 0.5 Hz.
    assert np.argmax(spectrum) == pytest.approx(880, abs=1)
    # Away from the ends the tone keeps its height: 8 bits round by 1/256 and the resampler's ripple is below 0.01.
    assert np.abs(samples[4_800:-4_800]).max() == pytest.approx(0.5, abs=0.01)


def test_a_24k_clip_is_not_touched(tmp_path):
    soundfile.write(tmp_path / "a.wav", tone(1, 24_000), 24_000, subtype="FLOAT")
    np.testing.assert_array_equal(load_reference_24k(tmp_path / "a.wav"), tone(1, 24_000))


@pytest.mark.parametrize("name", ["测试 é☃.wav", "clip.flac", "clip.ogg", "no suffix", "wav.raw"])
def test_names_do_not_matter(tmp_path, name):
    """Formats are told by content. Red when the library opens the file by name: it then guesses from `.raw`."""
    container = {"flac": "FLAC", "ogg": "OGG"}.get(name.rpartition(".")[2], "WAV")
    with (tmp_path / name).open("wb") as file:
        soundfile.write(file, tone(1, 24_000), 24_000, format=container)
    assert read_reference(tmp_path / name)[1] == 24_000


def test_missing_and_unreadable_are_told_apart(tmp_path):
    assert code(tmp_path / "nowhere.wav") == "reference_missing"
    (tmp_path / "text.wav").write_text("this is no audio")
    assert code(tmp_path / "text.wav") == "reference_unreadable"
    (tmp_path / "empty.wav").touch()
    assert code(tmp_path / "empty.wav") == "reference_unreadable"
    (tmp_path / "folder.wav").mkdir()
    assert code(tmp_path / "folder.wav") == "reference_unreadable"


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (np.zeros(24_000), "reference_silent"),
        (np.full(24_000, 5e-4), "reference_silent"),
        (np.where(np.arange(24_000) == 9_000, np.nan, tone(1, 24_000)), "reference_not_finite"),
        (np.where(np.arange(24_000) == 9_000, np.inf, tone(1, 24_000)), "reference_not_finite"),
        (tone(MIN_REFERENCE_S - 0.01, 24_000), "reference_too_short"),
        (np.zeros(0), "reference_too_short"),
        (tone(MAX_REFERENCE_S + 0.1, 24_000), "reference_too_long"),
    ],
    ids=["zeros", "below -60 dBFS", "nan", "inf", "short", "no sample", "long"],
)
def test_unusable_clips_are_refused_with_their_reason(tmp_path, samples, expected):
    """Red when one of the limits goes. NaN is the treacherous one: it is neither below nor above a threshold."""
    soundfile.write(tmp_path / "a.wav", samples.astype(np.float32), 24_000, subtype="FLOAT")
    assert code(tmp_path / "a.wav") == expected


@pytest.mark.parametrize("seconds", [MIN_REFERENCE_S, MAX_REFERENCE_S])
def test_the_limits_themselves_are_allowed(tmp_path, seconds):
    soundfile.write(tmp_path / "a.wav", tone(seconds, 24_000), 24_000)
    assert len(read_reference(tmp_path / "a.wav")[0]) == round(seconds * 24_000)


def test_what_cannot_be_decoded_is_told_in_the_same_words_each_time(tmp_path):
    """Red when the message names an object in memory by its address: two runs of one list would then differ."""
    (tmp_path / "text.wav").write_text("this is no audio")
    with pytest.raises(RowError, match="Format not recognised") as caught:
        read_reference(tmp_path / "text.wav")
    assert "0x" not in str(caught.value)


@pytest.mark.parametrize("lost", [1, 2, 20_000])
def test_a_wav_that_ends_before_its_header_says_so_is_refused(tmp_path, lost):
    """Red when half a download is cloned as if it were the clip that its transcript belongs to."""
    soundfile.write(tmp_path / "a.wav", tone(1, 24_000), 24_000)
    (tmp_path / "a.wav").write_bytes((tmp_path / "a.wav").read_bytes()[:-lost])
    assert code(tmp_path / "a.wav") == "reference_unreadable"


def test_a_wav_that_ends_too_early_is_found_behind_an_odd_chunk(tmp_path):
    """Red when chunks are taken to follow one another without the byte that makes their offsets even."""
    soundfile.write(tmp_path / "a.wav", tone(1, 24_000), 24_000)
    data = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "a.wav").write_bytes(data[:36] + b"LIST\3\0\0\0abc\0" + data[36:-2])
    assert code(tmp_path / "a.wav") == "reference_unreadable"


def test_a_wav_written_to_a_pipe_or_with_chunks_around_its_samples_is_whole(tmp_path):
    """Red when a size that means "unknown", an odd chunk before the samples or a chunk after them looks like a loss."""
    soundfile.write(tmp_path / "a.wav", tone(1, 24_000), 24_000)
    data = (tmp_path / "a.wav").read_bytes()
    header, size, samples = data[:36], data[40:44], data[44:]
    for name, made in {
        "ffmpeg": header + b"data" + b"\xff\xff\xff\xff" + samples,
        "sox": header + b"data" + b"\x00\xf0\xff\x7f" + samples,
        "chunks": header + b"LIST\3\0\0\0abc\0data" + size + samples + b"LIST\4\0\0\0abcd",
    }.items():
        (tmp_path / name).write_bytes(made)
        np.testing.assert_array_equal(read_reference(tmp_path / name)[0], read_reference(tmp_path / "a.wav")[0])
