"""Holes are found where they are cut; pauses of speech are none."""

from __future__ import annotations

import numpy as np
import pytest

from tests.score.pcm.sounds import RATE_HZ, VOICES, found, loud_edge, speech
from ttsbench.records.pcm import FaultKind


@pytest.mark.parametrize("voice", VOICES)
@pytest.mark.parametrize("milliseconds", [30, 80, 150])
@pytest.mark.parametrize("left", [0.0, 1e-3])
def test_a_hole_is_found_with_its_length(voice: str, milliseconds: int, left: float) -> None:
    """Of zeros, or of what is left at -60 dB. Red when only exact zeros, or only one length, make a hole."""
    broken = speech(voice).copy()
    begin, length = loud_edge(broken), milliseconds * RATE_HZ // 1000
    broken[begin - length // 2 :][:length] *= left
    (one,) = found(broken, FaultKind.DROPOUT)
    # 5 ms: the power is smoothed over 2 ms, and speech may be near silent where it is cut.
    assert one.start_s == pytest.approx((begin - length // 2) / RATE_HZ, abs=0.005)
    assert one.length_s == pytest.approx(length / RATE_HZ, abs=0.01)


@pytest.mark.parametrize("voice", VOICES)
def test_speech_has_no_holes(voice: str) -> None:
    """Its stops and pauses die away. Red when one abrupt end is enough, or the hole may be as loud as a stop."""
    assert not found(speech(voice), FaultKind.DROPOUT)


def test_a_pause_with_soft_ends_is_no_hole() -> None:
    """Red when the ends need not be abrupt."""
    at, length, fade = loud_edge(speech()), 1920, 960
    window = np.concatenate([np.linspace(1, 0, fade) ** 4, np.full(length, 1e-3), np.linspace(0, 1, fade) ** 4])
    paused = speech().copy()
    paused[at - fade : at + length + fade] *= np.maximum(window, 1e-3)
    assert not found(paused, FaultKind.DROPOUT)
