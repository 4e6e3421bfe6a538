"""Faults of the samples as they are stored."""

from __future__ import annotations

import numpy as np
import pytest

from tests.score.pcm.sounds import HOP_S, RATE_HZ, VOICES, found, speech
from ttsbench.records.pcm import FaultKind
from ttsbench.score.pcm.audit import hear
from ttsbench.score.pcm.stored import DC_DB, find_stored_faults


def kinds(samples: np.ndarray, clipped: int = 0) -> set[FaultKind]:
    return {one.kind for one in find_stored_faults(samples, RATE_HZ, clipped)}


@pytest.mark.parametrize("voice", VOICES)
def test_speech_is_stored_well(voice: str) -> None:
    """Red when one flat top, a quiet hold or a small mean is a fault."""
    assert not kinds(speech(voice))


@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_a_flat_top_is_clipping_at_any_gain(gain: float) -> None:
    """Red when clipping is measured against full scale."""
    limit = 0.4 * np.abs(speech()).max()
    assert kinds(np.clip(speech(), -limit, limit) * gain) == {FaultKind.CLIPPING}


def test_clipping_that_only_the_writer_knows_of_counts() -> None:
    """Red when the record's clamped samples are ignored."""
    (one,) = find_stored_faults(speech(), RATE_HZ, 3)
    assert (one.kind, one.strength) == (FaultKind.CLIPPING, 3.0)


def test_a_held_value_is_found_where_it_is_held() -> None:
    """Red when the place is lost, or zeros (a dropout's) or rounded room tone count."""
    held = speech().copy()
    held[48_000:50_400] = 0.05
    (one,) = [one for one in find_stored_faults(held, RATE_HZ, 0) if one.kind is FaultKind.STUCK]
    assert [one.start_s, one.length_s] == pytest.approx([2.0, 0.1], abs=1e-4)
    for quiet in (0.0, 2 / 32768):
        held[48_000:50_400] = quiet
        assert FaultKind.STUCK not in kinds(held)


def test_a_mean_away_from_zero_is_found_with_padding_too() -> None:
    """Red when the mean is taken over padding."""
    offset = speech().std() * 10 ** ((DC_DB + 2) / 20)
    assert kinds(speech() + offset) == {FaultKind.DC_OFFSET}
    assert kinds(np.pad(speech() + offset, 96_000)) == {FaultKind.DC_OFFSET}


def test_samples_that_are_no_numbers_are_found_and_the_rest_is_heard() -> None:
    """Red when NaN reaches the detectors, ends the audit, or passes as clean."""
    broken = speech().copy()
    broken[24_000:24_010] = np.nan
    broken[24_020] = np.inf
    findings = hear(broken, RATE_HZ, HOP_S).found
    (one,) = [one for one in findings if one.kind is FaultKind.NOT_FINITE]
    assert (one.start_s, one.strength) == (1.0, 11.0)
    assert not found(speech(), FaultKind.NOT_FINITE)
