"""Float to 16 bits without a wrap, as libsndfile does it, and WAV headers that strict readers accept."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ttsbench.records.wav import count_clipped, to_pcm16, wav_bytes, write_wav

RATE_HZ = 24_000


def test_the_golden_vector() -> None:
    """Goes red when full scale wraps (1.0 -> -32768), when rounding or the scale changes, or -0.0 becomes anything."""
    lsb = 2.0**-15
    samples = [1.0, 1.02, -1.0, -1.0001, 0.5, -0.5, 0.0, -0.0, lsb, -lsb, lsb / 2, -lsb / 2, 1e-12, -1e-12, 2.0, -2.0]
    expected = [32767, 32767, -32768, -32768, 16384, -16384, 0, 0, 1, -1, 0, -1, 0, 0, 32767, -32768]
    assert to_pcm16(np.array(samples)).tolist() == expected
    assert to_pcm16(np.array(samples, dtype=np.float32)).tolist() == expected


def as_soundfile_writes(samples: np.ndarray) -> np.ndarray:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, RATE_HZ, format="WAV", subtype="PCM_16")
    buffer.seek(0)
    return np.asarray(soundfile.read(buffer, dtype="int16")[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_what_libsndfile_writes(dtype: type) -> None:
    """Goes red for a scale of 32767, rounding to the nearest 16-bit step, or truncation towards zero."""
    rng = np.random.default_rng(0)
    around_steps = (rng.integers(-32768, 32768, 20_000) + rng.choice([-1e-4, 0, 1e-4, 0.5], 20_000)) / 32768
    samples: np.ndarray = np.concatenate(
        [rng.uniform(-1.2, 1.2, 50_000), rng.normal(0, 1e-4, 30_000), around_steps]
    ).astype(dtype)
    np.testing.assert_array_equal(to_pcm16(samples), as_soundfile_writes(samples))


def test_int16_passes_as_it_is() -> None:
    """Goes red when int16 from an engine is taken for floats with full scale 1.0."""
    samples = np.array([-32768, -1, 0, 1, 32767], dtype=np.int16)
    assert to_pcm16(samples).tolist() == samples.tolist()
    assert count_clipped(samples) == 0


def test_clamped_samples_are_counted() -> None:
    """Goes red when 1.0 and -1.0, which are full scale, count as clipped, or when what is beyond does not."""
    assert count_clipped(np.array([1.0, -1.0, 0.0, 1.02, -1.0001, 1.0000001])) == 3


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    """Goes red when NaN is cast: it would become silence or a click that nobody is told of."""
    with pytest.raises(ValueError, match="1 of 3 samples are not finite"):
        to_pcm16(np.array([0.0, bad, 0.0]))


@pytest.mark.parametrize("samples", [0, 1, 1920, 1921])
def test_header_sizes_are_exact(samples: int) -> None:
    """Goes red when a header keeps a placeholder size, or data follow that it does not count."""
    pcm = np.arange(samples, dtype=np.int16)
    data = wav_bytes(pcm, RATE_HZ)
    assert int.from_bytes(data[4:8], "little") == len(data) - 8
    assert int.from_bytes(data[40:44], "little") == len(data) - 44 == 2 * samples
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnframes(), file.getframerate(), file.getsampwidth()) == (samples, RATE_HZ, 2)
    np.testing.assert_array_equal(soundfile.read(io.BytesIO(data), dtype="int16")[0], pcm)


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes red when samples are written under the final name, or the temporary file stays after an error."""
    path = tmp_path / "测试 é.wav"
    seen: list[bool] = []

    def full_disk(fd: int) -> None:
        seen.append(path.exists())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ttsbench.records.writer.os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_wav(path, np.ones(1920, dtype=np.int16), RATE_HZ)
    assert seen == [False]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert write_wav(path, np.ones(1920, dtype=np.int16), RATE_HZ) == path.read_bytes()
