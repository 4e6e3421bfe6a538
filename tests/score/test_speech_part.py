"""What counts as the spoken part of a clip."""

from __future__ import annotations

import numpy as np
import pytest

from tests.score.runs import tone
from ttsbench.score.audio import ASR_RATE_HZ
from ttsbench.score.speaker.speech import AROUND, FRAME, spoken

SECOND = ASR_RATE_HZ


def silence(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * SECOND), np.float32)


def sentence() -> np.ndarray:
    """Loud, soft (20 dB below), a second of faint noise (50 dB below), loud: 3 s."""
    noise = 0.1 * 10 ** (-50 / 20) * np.random.default_rng(0).standard_normal(SECOND)
    return np.concatenate([tone(SECOND, 0.1), tone(SECOND // 2, 0.01), noise, tone(SECOND // 2, 0.1)]).astype(
        np.float32
    )


def test_long_pauses_go_and_soft_speech_stays() -> None:
    """Red when the noise of a pause counts as speech, or speech 20 dB below the loudest does not.

    Of the 3 s, 2 are speech; AROUND frames on both sides of the pause are kept with it.
    """
    assert len(spoken(sentence())) == 2 * SECOND + 2 * AROUND * FRAME


@pytest.mark.parametrize("gain", [1.0, 8.0, 0.02], ids=str)
@pytest.mark.parametrize("offset", [0.0, 0.25], ids=["centred", "offset"])
@pytest.mark.parametrize("padding_s", [0, 1, 40], ids=str)
def test_gain_padding_and_offset_leave_the_same_frames(gain: float, offset: float, padding_s: int) -> None:
    """Red when the depth hangs on full scale, on a percentile of all frames, or on power that an offset adds to.

    Padding of whole frames keeps the grid. It adds the AROUND silent frames on both sides and nothing else.
    """
    clip = gain * np.concatenate([silence(padding_s), sentence(), silence(padding_s)]) + offset
    kept = len(spoken(clip.astype(np.float32)))
    assert kept == len(spoken(sentence())) + (2 * AROUND * FRAME if padding_s else 0)


@pytest.mark.parametrize("clip", [silence(1), silence(0), silence(1) + 0.5, tone(FRAME - 1)], ids=str)
def test_nothing_is_spoken_in_silence(clip: np.ndarray) -> None:
    """Red when a constant passes for speech, or a clip without a whole frame raises."""
    assert len(spoken(clip)) == 0
