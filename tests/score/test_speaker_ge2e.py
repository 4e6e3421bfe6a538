"""The embedded speaker encoder: it knows voices, and nothing else changes what it hears."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import soxr
import torch

from tests.score.runs import wav_bytes
from ttsbench.assets import asset_folder
from ttsbench.core import InvalidInput
from ttsbench.models.qwen3_tts import mel
from ttsbench.score.audio import ASR_RATE_HZ, decode_wav, for_asr
from ttsbench.score.speaker import ge2e
from ttsbench.score.speaker.ge2e import Ge2eEncoder, check_signal, slaney_filters
from ttsbench.score.speaker.speech import spoken

FOLDER = asset_folder("ge2e")
CLIPS = {path.stem: path for path in sorted((asset_folder("mini_en") / "en" / "prompt-wavs").glob("*.wav"))}


@pytest.fixture(scope="module")
def encoder() -> Ge2eEncoder:
    return Ge2eEncoder.load()


def heard(name: str) -> np.ndarray:
    """A bundled clip as the encoder gets it."""
    return for_asr(decode_wav(CLIPS[name].read_bytes()))


def stored(change: Callable[[np.ndarray], np.ndarray], rate_hz: int) -> Callable[[np.ndarray], np.ndarray]:
    """Bring a 24 kHz clip to a rate, change it, write it as 16-bit WAV and read it as the judge does."""

    def through(samples: np.ndarray) -> np.ndarray:
        changed = change(soxr.resample(samples, 24_000, rate_hz, quality="HQ"))
        return for_asr(decode_wav(wav_bytes(changed, rate_hz)))

    return through


def padded(before: int, after: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda samples: np.pad(samples, (before, after))


@pytest.mark.parametrize(
    "change",
    [
        stored(lambda samples: samples, 16_000),
        stored(lambda samples: np.stack([samples, samples], axis=1), 44_100),
        stored(lambda samples: 0.1 * samples, 24_000),
        stored(lambda samples: 1.4 * samples, 24_000),
        stored(padded(1_234, 40_001), 24_000),
        stored(padded(240_000, 240_000), 24_000),
    ],
    ids=["16 kHz", "44.1 kHz stereo", "gain -20 dB", "gain +3 dB", "padded by odd lengths", "padded by 10 s"],
)
def test_a_clip_stays_itself_whatever_it_is_stored_as(
    change: Callable[[np.ndarray], np.ndarray], encoder: Ge2eEncoder
) -> None:
    """The clip and its change are alike (cosine above 0.995) and equally like any voice: within 1.5 points of 100.

    Red when speech is not brought to one level (-20 dB: cosine 0.9), when the pauses or the windows hang on the length
    of the clip, when a rate is assumed or one channel taken. What is left comes from the 10 ms grid, which padding
    shifts against the speech, and from the 16-bit rounding of a quiet copy; the largest seen is 0.9 points.
    """
    others = np.stack([encoder.embed(heard(name)) for name in CLIPS])
    for name in ("af_heart", "bm_fable"):
        one = encoder.embed(heard(name))
        same = encoder.embed(change(decode_wav(CLIPS[name].read_bytes()).samples))
        assert one @ same > 0.995
        np.testing.assert_allclose(100 * others @ same, 100 * others @ one, rtol=0, atol=1.5)


def test_it_knows_every_bundled_voice_by_half_a_clip(encoder: Ge2eEncoder) -> None:
    """Eight voices, two halves of 2 s each: every half is nearest to its other half.

    Red when the mel scale, the tensors' places or the windows are wrong: halves then find each other by chance.
    """
    halves = []
    for name in CLIPS:
        speech = spoken(heard(name))
        halves += [encoder.embed(half) for half in np.array_split(speech, 2)]
    cosines = np.stack(halves) @ np.stack(halves).T - 2 * np.eye(len(halves))
    assert cosines.argmax(1).tolist() == [number ^ 1 for number in range(len(halves))]


def test_vectors_have_length_one_and_no_negative_part(encoder: Ge2eEncoder) -> None:
    """A short and a long sound; red when the mean of the windows is left as long as it comes out."""
    for seconds in (0.3, 20):
        vector = encoder.embed(np.resize(heard("af_bella"), round(seconds * ASR_RATE_HZ)))
        assert vector.shape == (256,)
        assert vector.dtype == np.float32
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
        assert vector.min() >= 0


def test_windows_reach_from_the_first_sample_to_the_last(encoder: Ge2eEncoder) -> None:
    """0.7 s of another voice behind 2 s of one bring the vector nearer to that other voice, by 0.076.

    Red when the windows start every MAX_STEP and the last one ends where it ends: half of the 0.7 s is then heard, and
    the step is 0.036.
    """
    clip, other = (spoken(heard(name)) for name in ("af_heart", "bm_george"))
    alone, added = clip[: 2 * ASR_RATE_HZ], other[: 7 * ASR_RATE_HZ // 10]
    george = encoder.embed(other)
    assert encoder.embed(np.concatenate([alone, added])) @ george > encoder.embed(alone) @ george + 0.06


def test_the_number_of_windows_at_once_changes_nothing(encoder: Ge2eEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a runaway's windows beyond the first lot are lost. 1e-6: float32 sums in another order."""
    clip = np.resize(heard("am_fenrir"), 12 * ASR_RATE_HZ)
    whole = encoder.embed(clip)
    monkeypatch.setattr(ge2e, "WINDOWS_AT_ONCE", 2)
    np.testing.assert_allclose(encoder.embed(clip), whole, rtol=0, atol=1e-6)


def test_silence_has_no_voice(encoder: Ge2eEncoder) -> None:
    """Red when silence gets a vector: 0 / 0, which is NaN, or a voice that nobody has."""
    for samples in (np.zeros(16_000, np.float32), np.full(16_000, 0.5, np.float32), np.zeros(0, np.float32)):
        with pytest.raises(ValueError, match="no sound"):
            encoder.embed(samples)


def test_filters_are_those_of_the_house() -> None:
    """Two derivations of Slaney's scale; the house's one ends at 12 kHz, which here is half of the rate."""
    ours = torch.from_numpy(slaney_filters(24_000, mel.N_FFT, 40))
    torch.testing.assert_close(ours, mel.filterbank(40, 24_000))


def weights() -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(FOLDER / ge2e.WEIGHTS)


@pytest.mark.parametrize("name", sorted(weights()))
def test_the_self_check_trips_over_a_changed_tensor(name: str, encoder: Ge2eEncoder) -> None:
    """One tensor by 1 %, which moves the vector by 6e-4 at least (a single weight is for the file's hash to notice).

    Red when the check is not made on what the weights compute, or its tolerance is wide.
    """
    expected = encoder.embed(check_signal())
    changed = weights()
    changed[name] = 1.01 * changed[name].float()
    with pytest.raises(InvalidInput, match="stored vector of a known signal"):
        Ge2eEncoder(changed).self_check(expected)


def test_the_self_check_trips_over_another_arithmetic(encoder: Ge2eEncoder) -> None:
    """bfloat16, which a process may have switched on for speed, is not what the figures are of."""
    expected = encoder.embed(check_signal())
    rounded = {name: tensor.bfloat16() for name, tensor in weights().items()}
    with pytest.raises(InvalidInput, match="speaker encoder ge2e"):
        Ge2eEncoder(rounded).self_check(expected)


def test_a_file_that_is_not_the_one_that_ships_is_refused(tmp_path: Path) -> None:
    """One bit of the last weight: red when the hash is not looked at, or the error does not say what to do."""
    for name in (ge2e.WEIGHTS, ge2e.CHECK):
        shutil.copy(FOLDER / name, tmp_path / name)
    data = bytearray((tmp_path / ge2e.WEIGHTS).read_bytes())
    data[-1] ^= 1
    (tmp_path / ge2e.WEIGHTS).write_bytes(data)
    with pytest.raises(InvalidInput) as caught:
        Ge2eEncoder.load(tmp_path)
    for part in (ge2e.WEIGHTS_SHA256, "make_ge2e", str(tmp_path)):
        assert part in str(caught.value)


def test_the_stored_vector_is_looked_at_on_load(tmp_path: Path) -> None:
    """Red when `load` leaves the self-check out."""
    shutil.copy(FOLDER / ge2e.WEIGHTS, tmp_path)
    (tmp_path / ge2e.CHECK).write_text(str([0.0625] * 256))
    with pytest.raises(InvalidInput, match="stored vector"):
        Ge2eEncoder.load(tmp_path)
