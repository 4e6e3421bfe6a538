"""Codes by construction: causal features, two views of a frame, books that get better level by level."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from scripts.train_tiny import codes, features
from scripts.train_tiny.config import CODEBOOK_SIZE, HOP, NUM_CODEBOOKS, ROW_WIDTH
from scripts.train_tiny.corpus import Shard
from scripts.train_tiny.fit_codes import left_power, perplexity, phonemes_told

PHONEMES = 12


def labelled_frames(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Features whose phoneme is a small shift in some directions, beside far stronger variation in others."""
    phoneme = torch.randint(PHONEMES, (count,), generator=generator)
    shifts = torch.randn(PHONEMES, 8, generator=generator)
    made = 0.2 * torch.randn(count, features.FEATURES, generator=generator)
    made[:, :40] *= 20
    made[:, 100:108] = shifts[phoneme] + 0.1 * torch.randn(count, 8, generator=generator)
    return made, (phoneme[:, None] + 40).expand(-1, 4).to(torch.uint8)


@pytest.fixture(scope="module")
def fitted() -> tuple[codes.Fit, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    made, labels = labelled_frames(3000, generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codes, "ITERATIONS", 8)
        return codes.fit(made, labels, generator), made, labels


def test_features_of_a_frame_know_nothing_of_what_comes_after_it():
    """Red when a window reaches past its frame, as with torch's centred spectra."""
    audio = 0.1 * torch.randn(5, HOP)
    starts = torch.tensor([True, False, False, False, False])
    before = features.frame_features(audio, starts)
    audio[3:] = 0.1 * torch.randn(2, HOP)
    after = features.frame_features(audio, starts)
    assert torch.equal(before[:3], after[:3])
    assert not torch.equal(before[3], after[3])


def test_an_utterance_has_silence_before_it_whatever_lies_before_it_in_the_shard():
    """Red when `starts` is not heeded, or the mask is shifted by a frame."""
    audio = (3000 * torch.randn(7, HOP)).to(torch.int16)
    counts = torch.tensor([3, 4], dtype=torch.int32)
    empty = torch.zeros(2, dtype=torch.int32)
    labels, said = torch.zeros(7, 4, dtype=torch.uint8), torch.zeros(7, dtype=torch.uint8)
    shard = Shard(audio, labels, said, empty, empty, counts, torch.tensor([0, 3, 7]))
    alone = features.frame_features(audio[3:], torch.tensor([True, False, False, False]))
    # The same sums in another batch: the matrix product may order them differently.
    assert torch.allclose(features.shard_features(shard)[3:], alone, atol=1e-5)
    assert not torch.allclose(features.frame_features(audio, torch.zeros(7, dtype=torch.bool))[3], alone[0], atol=1e-2)


def test_features_do_not_depend_on_how_many_frames_are_taken_at_a_time(monkeypatch: pytest.MonkeyPatch):
    """Red when a chunk forgets the frame before it."""
    audio = 0.1 * torch.randn(11, HOP)
    starts = torch.zeros(11, dtype=torch.bool)
    starts[6] = True
    whole = features.frame_features(audio, starts)
    monkeypatch.setattr(features, "CHUNK", 3)
    assert torch.allclose(features.frame_features(audio, starts), whole, atol=1e-5)


def test_a_tone_peaks_in_the_band_that_holds_its_frequency():
    """Red when filters and spectrum disagree about the scale of frequencies, or bands are not even in mel."""
    hertz = 1000.0
    tone = 0.3 * torch.sin(2 * torch.pi * hertz * torch.arange(4 * HOP) / 24_000)
    rows = features.frame_features(tone.view(4, HOP), torch.zeros(4, dtype=torch.bool))[2].view(features.ROWS, -1)
    part = math.log(1 + hertz / 700) / math.log(1 + 12_000 / 700)
    assert (rows.argmax(1) == round(part * (features.BINS + 1)) - 1).all()


def test_each_level_leaves_less_of_the_acoustic_view(fitted: tuple[codes.Fit, Tensor, Tensor]):
    """Red when a level codes the view itself and not what the last one left."""
    fit, made, _ = fitted
    coded = codes.encode(fit, made)
    assert coded.shape == (len(made), NUM_CODEBOOKS)
    assert coded.dtype == torch.uint8
    left = left_power(fit, made, coded)
    assert all(later < earlier for earlier, later in pairwise(left))
    assert left[-1] < 0.2


def test_features_of_a_view_have_that_view(fitted: tuple[codes.Fit, Tensor, Tensor]):
    """Red when the inverse forgets the mean, or takes the scale of the basis once and not twice."""
    fit, made, _ = fitted
    view = fit.acoustic(made)
    # float32: sums of 640 products, of a view of unit scale
    torch.testing.assert_close(fit.acoustic(fit.features(view)), view, rtol=0, atol=1e-4)


def test_book_0_tells_phonemes_that_the_acoustic_book_does_not(fitted: tuple[codes.Fit, Tensor, Tensor]):
    """Red when the semantic view is made of principal components, in which these phonemes hardly show."""
    fit, made, labels = fitted
    coded = codes.encode(fit, made)
    told = [phonemes_told(coded[::2, k], labels[::2], coded[1::2, k], labels[1::2]) for k in (0, 1)]
    assert told[0] > 0.85
    assert told[1] < 0.5


def test_symbols_without_a_sound_and_silences_do_not_bend_the_semantic_view():
    """Red when stress marks count as phonemes, or two kinds of pause as different sounds."""
    generator = torch.Generator().manual_seed(1)
    made, labels = labelled_frames(1500, generator)
    centred = made - made.mean(0)
    sounding = torch.arange(1500) < 1000
    marked = torch.where(sounding[:, None], labels, 156).to(torch.uint8)
    with_marks = codes.discriminants(centred, marked, 8)
    assert torch.allclose(with_marks, codes.discriminants(centred[sounding], labels[sounding], 8), atol=1e-4)
    paused = labels.clone()
    paused[labels == 40] = 3
    other = paused.clone()
    other[::2][labels[::2] == 40] = 4
    assert torch.equal(codes.discriminants(centred, paused, 8), codes.discriminants(centred, other, 8))


def test_both_views_are_of_unit_scale_and_the_semantic_one_is_padded(fitted: tuple[codes.Fit, Tensor, Tensor]):
    """Red when a basis is not divided by its scale: the decoder's first layer relies on it."""
    fit, made, _ = fitted
    semantic = fit.semantic(made)
    assert float(fit.acoustic(made).std(0).mean()) == pytest.approx(1, abs=0.05)
    assert float(semantic[:, : codes.SEMANTIC_DIMS].std(0).mean()) == pytest.approx(1, abs=0.05)
    assert (semantic[:, codes.SEMANTIC_DIMS :] == 0).all()
    assert fit.books.shape == (NUM_CODEBOOKS, CODEBOOK_SIZE, ROW_WIDTH)


def test_k_means_uses_its_rows_though_half_of_the_points_are_one_point():
    """Red when a mean without points stays where it is: half of the first means are the same silence."""
    points = torch.randn(4000, 4)
    points[:2000] = 0
    means = codes.k_means(points, torch.Generator().manual_seed(0), 64)
    used = codes.nearest(points, means).unique()
    assert len(used) >= 60
    assert float((points - means[codes.nearest(points, means)]).square().mean()) < 0.1


def test_perplexity_counts_equally_used_codes():
    """Red when the logarithm's base or the sum over codes is wrong."""
    even = torch.arange(8, dtype=torch.uint8).repeat(10)[:, None]
    assert perplexity(torch.cat((even, even % 2), 1)) == [8.0, 2.0]


def test_a_fit_survives_its_file(fitted: tuple[codes.Fit, Tensor, Tensor], tmp_path):
    """Red when a field is not stored."""
    fit, made, _ = fitted
    fit.save(tmp_path / "codes.safetensors")
    assert torch.equal(codes.encode(codes.Fit.load(tmp_path / "codes.safetensors"), made), codes.encode(fit, made))


def test_rare_codes_come_first() -> None:
    """vLLM-Omni never draws code 0. Red when the book keeps the order that k-means left."""
    book = torch.tensor([[0.0], [10.0], [20.0]])
    points = torch.tensor([[0.0]] * 5 + [[10.0]] * 2 + [[20.0]] * 3)
    assert codes.rarest_first(book, points).flatten().tolist() == [10, 20, 0]
