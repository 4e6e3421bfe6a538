"""Philox against published answers, and the properties that make a seed belong to a request."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ttsbench.kernels.draw.philox import LARGEST_UNIFORM, frame_uniforms, philox, uniform_of, uniforms

ALL = 0xFFFFFFFF
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ALL, ALL, ALL, ALL), (ALL, ALL), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""philox4x32-10 of the Random123 distribution (kat_vectors)."""


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(
    counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """Red with nine rounds, swapped multipliers, or a product that overflows."""
    words = philox(tuple(torch.tensor(c) for c in counter), tuple(torch.tensor(k) for k in key))  # type: ignore[arg-type]
    assert tuple(int(w) for w in words) == expected


seeds = st.integers(0, 2**63 - 1)


@given(seeds, st.integers(0, 10**6), st.lists(seeds, max_size=5), st.data())
def test_a_draw_knows_only_seed_frame_and_codebook(
    seed: int, frame: int, others: list[int], data: st.DataObject
) -> None:
    """Red if the row number, the batch size or a call counter enters the counter words."""
    place = data.draw(st.integers(0, len(others)))
    rows = [*others[:place], seed, *others[place:]]
    frames = [frame + i - place for i in range(len(rows))]
    together = frame_uniforms(torch.tensor(rows), torch.tensor(frames).abs(), 16)[place]
    alone = frame_uniforms(torch.tensor([seed]), torch.tensor([frame]), 16)[0]
    assert torch.equal(together, alone)
    assert torch.equal(alone[:4], frame_uniforms(torch.tensor([seed]), torch.tensor([frame]), 4)[0])
    assert torch.equal(alone[7:8], uniforms(torch.tensor([seed]), torch.tensor([frame]), torch.tensor([7]))[0])


def test_seeds_frames_and_codebooks_all_matter() -> None:
    """Red if the high word of the seed is dropped, or frame and codebook share a counter word."""
    base = frame_uniforms(torch.tensor([5]), torch.tensor([3]), 16)
    assert not torch.equal(base, frame_uniforms(torch.tensor([5 + 2**40]), torch.tensor([3]), 16))
    assert not torch.equal(base, frame_uniforms(torch.tensor([5]), torch.tensor([4]), 16))
    grid = frame_uniforms(torch.zeros(64, dtype=torch.int64), torch.arange(64), 16)
    assert len(grid.unique()) == grid.numel()


def test_uniforms_are_uniform_and_never_0_or_1() -> None:
    """160,000 draws: each of 100 bins within five standard deviations (40) of 1,600; red if bits are lost or biased."""
    draws = frame_uniforms(torch.arange(100).repeat_interleave(100), torch.arange(100).repeat(100), 16).flatten()
    assert float(draws.min()) > 0
    assert float(draws.max()) < 1
    counts = torch.histc(draws, bins=100, min=0, max=1)
    assert float((counts - 1600).abs().max()) < 5 * 40


def test_the_ends_of_the_word_lie_inside_the_interval() -> None:
    """The last centred number, 1 - 2**-25, is no float32. Red if it is rounded to 1, from where nothing is drawn."""
    ends = uniform_of(torch.tensor([0, ALL, ALL - 2**8]))
    assert ends.tolist() == [2.0**-25, LARGEST_UNIFORM, 1 - 2.0**-23]
    assert LARGEST_UNIFORM < 1
