"""What reaches the recogniser, and what counts as silence."""

from __future__ import annotations

import numpy as np
import pytest

from tests.score.runs import tone, wav_bytes
from ttsbench.score.audio import ASR_RATE_HZ, AudioFault, audible_windows, decode_wav, for_asr

SECOND = ASR_RATE_HZ
RNG = np.random.default_rng(0)


def noise(level_dbfs: float, samples: int = SECOND) -> np.ndarray:
    """White noise of that RMS."""
    return (10 ** (level_dbfs / 20) * RNG.standard_normal(samples)).astype(np.float32)


@pytest.mark.parametrize(
    "samples",
    [np.zeros(SECOND), np.full(SECOND, -1.0), np.full(SECOND, 0.3), noise(-75), np.zeros(0), np.zeros(1)],
    ids=["zeros", "negative full scale", "offset", "faint noise", "nothing", "one sample"],
)
def test_silence_has_no_audible_window(samples: np.ndarray) -> None:
    """Red when a constant (a decoder's NaN written as -32768) or rounding noise passes for sound."""
    assert audible_windows(samples.astype(np.float32)) == []


@pytest.mark.parametrize("gain", [1.0, 0.5, 0.05])
@pytest.mark.parametrize("padding", [0, SECOND // 3, 10 * SECOND])
def test_a_short_sound_is_audible_whatever_stands_around_it(gain: float, padding: int) -> None:
    """Red when the gate measures the mean of the clip, which padding or gain would change."""
    around = np.zeros(padding, np.float32)
    clip = np.concatenate([around, gain * tone(SECOND // 10), around]).astype(np.float32)
    assert audible_windows(clip) == [(0, 30)]


def test_windows_are_gated_one_by_one() -> None:
    """Sound, 30 s of silence, sound: red when the silent window is sent along, for a recogniser to fill with words."""
    clip = np.concatenate([tone(30 * SECOND), np.zeros(30 * SECOND, np.float32), tone(SECOND)])
    assert audible_windows(clip) == [(0, 30), (60, 90)]


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 44_100, 48_000])
def test_audio_is_resampled_from_the_rate_in_its_header(rate_hz: int) -> None:
    """A 440 Hz second stays a 440 Hz second. Red when a rate is assumed: 24 kHz read as 16 kHz would be 293 Hz."""
    samples = 0.1 * np.sin(2 * np.pi * 440 * np.arange(rate_hz) / rate_hz)
    heard = for_asr(decode_wav(wav_bytes(samples, rate_hz)))
    assert abs(len(heard) - SECOND) <= 1
    spectrum = np.abs(np.fft.rfft(heard, SECOND))
    assert int(spectrum.argmax()) == 440
    assert heard.dtype == np.float32


def test_channels_are_averaged() -> None:
    """Red when the first channel is taken alone."""
    left, right = tone(1000, 0.2), np.zeros(1000, np.float32)
    mono = decode_wav(wav_bytes(np.stack([left, right], axis=1), subtype="FLOAT")).samples
    np.testing.assert_allclose(mono, left / 2, rtol=0, atol=1e-7)  # one float32 rounding of values below 0.1


@pytest.mark.parametrize("data", [b"", b"RIFF", b"<html>", wav_bytes(tone(1000))[:20]])
def test_what_cannot_be_decoded_is_a_fault(data: bytes) -> None:
    """Red when a decoder's own exception gets through, which would end the scoring."""
    with pytest.raises(AudioFault, match="cannot be decoded") as caught:
        decode_wav(data)
    assert "0x" not in str(caught.value), "an address in memory, which makes equal runs differ"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_not_finite_are_a_fault(value: float) -> None:
    """Red when NaN reaches the recogniser."""
    samples = tone(1000)
    samples[500] = value
    with pytest.raises(AudioFault, match="not finite"):
        decode_wav(wav_bytes(samples, subtype="FLOAT"))


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0xFFFFFFFF, 2_000_000_000])
def test_a_bogus_length_in_the_header_never_makes_audio(size: int) -> None:
    """A streamed file keeps placeholder sizes: what is decoded are the samples there are, or it is a fault."""
    data = bytearray(wav_bytes(tone(1000)))
    at = data.index(b"data") + 4
    data[at : at + 4] = size.to_bytes(4, "little")
    assert len(decode_wav(bytes(data)).samples) in (0, 1000)
