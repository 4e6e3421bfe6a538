"""Reads a reference clip the way every engine of ours gets it: mono float32, at the rate that the file's header states.

A 16 kHz clip taken for 24 kHz speaks one and a half times too fast, so the rate always comes from the header. Nothing
is trimmed, padded or made louder: that would part the clip from its transcript, or the run from its input.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from ttsbench.core import RowError

if TYPE_CHECKING:
    import numpy as np

REFERENCE_RATE_HZ = 24_000

MIN_REFERENCE_S = 0.3
"""Shorter clips hold no syllable, fewer than four codec frames, and crash WavLM, which judges speaker similarity."""

MAX_REFERENCE_S = 30.0
"""The longest clip that every supported model family takes (CosyVoice3's tokeniser stops there). Besides, cloning from
a minute of speech is known to lose words."""

SILENCE_PEAK = 1e-3
"""-60 dBFS, 33 steps of 16-bit audio: below it a clip holds at most the noise of a microphone."""

UNKNOWN_SIZE = 0x7FFFF000
"""Sizes from here on stand for "unknown" in a WAV that was written to a pipe, whose writer could not go back to fill in
the true one: sox gives this one, ffmpeg the largest there is. As a true size it would be hours of audio."""


def read_reference(path: Path) -> tuple[np.ndarray, int]:
    """Samples of a clip, float32 [S], channels averaged, full scale 1.0; and the sample rate in hertz from its header.

    Raises RowError: reference_missing, reference_unreadable (a WAV that ends too early among them),
    reference_too_short, reference_too_long, reference_not_finite, reference_silent (no sample above SILENCE_PEAK).
    """
    return _judged(reference_bytes(path), path)


def load_reference_24k(path: Path) -> np.ndarray:
    """The clip at 24 kHz, float32 [S], resampled by soxr (HQ) if its own rate differs. Raises as `read_reference`."""
    return decode_reference_24k(reference_bytes(path), path)


def reference_bytes(path: Path) -> bytes:
    """All of a clip's file. Raises RowError: reference_missing, reference_unreadable."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise RowError("reference_missing", f"{path}: no such file") from error
    except OSError as error:
        raise RowError("reference_unreadable", f"{path}: {error}") from error


def decode_reference_24k(data: bytes, path: Path) -> np.ndarray:
    """As `load_reference_24k`, of the bytes that were read from `path`, which errors name."""
    import numpy as np
    import soxr

    mono, rate = _judged(data, path)
    return np.asarray(soxr.resample(mono, rate, REFERENCE_RATE_HZ, quality="HQ"), dtype=np.float32)


def _judged(data: bytes, path: Path) -> tuple[np.ndarray, int]:
    """Mono samples and rate of a clip that can be used; raises what `read_reference` says."""
    import numpy as np

    samples, rate = _decode(data, path)
    seconds = len(samples) / rate
    if seconds < MIN_REFERENCE_S:
        raise RowError("reference_too_short", f"{path}: {seconds:.2f} s, at least {MIN_REFERENCE_S} s are needed")
    if seconds > MAX_REFERENCE_S:
        raise RowError("reference_too_long", f"{path}: {seconds:.1f} s, at most {MAX_REFERENCE_S:g} s can be used")
    mono = samples.mean(axis=1, dtype=np.float32)
    peak = float(np.abs(mono).max())
    if not np.isfinite(peak):
        raise RowError("reference_not_finite", f"{path}: holds samples that are NaN or infinite")
    if peak <= SILENCE_PEAK:
        raise RowError("reference_silent", f"{path}: peak {peak:g}, above {SILENCE_PEAK:g} of full scale is needed")
    return mono, rate


def _decode(data: bytes, path: Path) -> tuple[np.ndarray, int]:
    """All samples, float32 [S, channels], and their rate."""
    import soundfile

    try:
        # From memory: names outside ASCII never pass through the audio library, and no suffix makes it guess a format.
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        # Its own message names the object in memory by its address, which differs from run to run.
        raise RowError("reference_unreadable", f"{path}: {error.error_string}") from error
    except soundfile.SoundFileError as error:
        raise RowError("reference_unreadable", f"{path}: {error}") from error
    if lost := _lost_bytes(data):
        raise RowError("reference_unreadable", f"{path}: cut short, {lost} bytes of its audio data are missing")
    return samples, int(rate)


def _lost_bytes(data: bytes) -> int:
    """Bytes that a WAV's data chunk announces and the file does not hold; libsndfile passes over them in silence."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return 0
    at = 12
    while at + 8 <= len(data):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        at += 8
        if name == b"data":
            return 0 if size >= UNKNOWN_SIZE else max(0, at + size - len(data))
        at += size + size % 2  # chunks start at even offsets
    return 0
