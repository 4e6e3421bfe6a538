"""Speaker encoder and its mel front end: sizes and names of the published file, facts of the mel scale, edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.models.qwen3_tts.codec_toys import random_weights
from ttsbench.core import InvalidInput, RowError
from ttsbench.models.qwen3_tts.mel import filterbank, log_mel
from ttsbench.models.qwen3_tts.speaker_encoder import AttentivePooling, Ends, SpeakerEncoder, SpeakerEncoderConfig

TOY = SpeakerEncoderConfig(enc_dim=12, channels=(16, 16, 16, 16, 48), attention_channels=6, se_channels=5)


@pytest.fixture(autouse=True)
def no_autograd() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def encoder() -> SpeakerEncoder:
    encoder = SpeakerEncoder(TOY)
    random_weights(encoder)
    return encoder


@pytest.mark.parametrize(("enc_dim", "weights"), [(2048, 12_001_088), (1024, 8_854_336)])
def test_released_sizes_are_those_of_the_published_files(enc_dim: int, weights: int) -> None:
    with torch.device("meta"):
        tensors = SpeakerEncoder(SpeakerEncoderConfig(enc_dim)).state_dict()
    assert len(tensors) == 76
    assert sum(tensor.numel() for tensor in tensors.values()) == weights
    assert set(tensors) >= {
        "blocks.0.conv.weight",
        "blocks.3.tdnn1.conv.bias",
        "blocks.3.res2net_block.blocks.6.conv.weight",
        "blocks.3.tdnn2.conv.weight",
        "blocks.3.se_block.conv1.weight",
        "mfa.conv.weight",
        "asp.tdnn.conv.weight",
        "asp.conv.bias",
        "fc.weight",
    }


def test_config_reads_the_two_published_fields_and_keeps_the_architecture() -> None:
    config = SpeakerEncoderConfig.from_json({"speaker_encoder_config": {"enc_dim": 2048, "sample_rate": 24000}})
    assert config == SpeakerEncoderConfig(enc_dim=2048)


def test_config_takes_the_optional_sizes_of_the_published_class() -> None:
    section = {"enc_dim": 12, "sample_rate": 24000, "enc_channels": [16, 16, 16, 16, 48]}
    section |= {"enc_attention_channels": 6, "enc_se_channels": 5}
    assert SpeakerEncoderConfig.from_json({"speaker_encoder_config": section}) == TOY


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"sample_rate": 24000}, "enc_dim"),
        ({"enc_dim": 8}, "sample_rate"),
        ({"enc_dim": "8", "sample_rate": 24000}, "enc_dim"),
        ({"enc_dim": 8, "sample_rate": 24000, "enc_channels": [16, 48]}, "enc_channels"),
    ],
)
def test_a_bad_config_is_an_error_that_names_the_field(section: dict[str, Any], field: str) -> None:
    """The class default of enc_dim, 1024, would be wrong for the larger checkpoint."""
    with pytest.raises(InvalidInput, match=field):
        SpeakerEncoderConfig.from_json({"speaker_encoder_config": section})


def test_a_vector_has_the_configured_width(encoder: SpeakerEncoder) -> None:
    vector = encoder.embed(torch.randn(24_000) / 5)
    assert vector.shape == (TOY.enc_dim,)
    assert vector.isfinite().all()
    assert vector.std() > 0


def test_rows_of_a_batch_do_not_mix(encoder: SpeakerEncoder) -> None:
    mels = torch.randn(3, 40, 128)
    alone = torch.cat([encoder(mel[None]) for mel in mels])
    torch.testing.assert_close(encoder(mels), alone, rtol=1e-5, atol=1e-5)


def test_the_shortest_audio_works_and_one_sample_less_is_the_rows_fault(encoder: SpeakerEncoder) -> None:
    """1,280 samples give 5 mel frames, what the reflected edge of dilation 4 needs; the published code fails below."""
    assert TOY.min_samples == SpeakerEncoderConfig(enc_dim=2048).min_samples == 1280
    assert encoder.embed(torch.randn(1280)).isfinite().all()
    with pytest.raises(RowError) as caught:
        encoder.embed(torch.randn(1279))
    assert caught.value.code == "short_reference"


def test_mel_frames_follow_the_hop() -> None:
    for samples, frames in ((512, 2), (1279, 4), (1280, 5), (24_000, 93)):
        assert log_mel(torch.randn(samples)).shape == (frames, 128)


def test_silence_sits_on_the_floors() -> None:
    """A filter of sum s sees a magnitude of s * sqrt(1e-9) in silence; most stay below the floor of 1e-5."""
    mel = log_mel(torch.zeros(4000))
    want = (filterbank(128, 24_000).sum(1) * 1e-9**0.5).clamp(min=1e-5).log()
    torch.testing.assert_close(mel, want.expand_as(mel), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("hz", [200.0, 1000.0, 4000.0, 9000.0])
def test_a_tone_peaks_in_the_bin_of_its_frequency(hz: float) -> None:
    """Bin of Slaney's scale: 3 mel per 200 Hz below 1 kHz, 27 mel per factor 6.4 above; 130 edges from 0 to 12 kHz."""

    def mels(f: float) -> float:
        return f * 3 / 200 if f < 1000 else 15 + 27 * float(torch.tensor(f / 1000).log() / torch.tensor(6.4).log())

    wav = (2 * torch.pi * hz * torch.arange(24_000) / 24_000).sin()
    peak = int(log_mel(wav).mean(0).argmax())
    assert abs(peak - (mels(hz) / mels(12_000) * 129 - 1)) <= 1


def test_filters_have_equal_area() -> None:
    """Triangles of height 2 / width: the integral over Hz is 1, within what a grid of 23.4 Hz can resolve."""
    area = filterbank(128, 24_000)[60:].sum(1) * 24_000 / 1024
    torch.testing.assert_close(area, torch.ones_like(area), rtol=0.04, atol=0)


CLIPS = (24_000, 1280, 1537, 5000, 23_999, 12_345)
"""The shortest has five mel frames, as many as the widest edge reflects."""


def worst_of_a_pass() -> float:
    """Largest difference between vectors of one pass over CLIPS and of each clip by itself, in float64."""
    encoder = SpeakerEncoder(TOY).double()
    random_weights(encoder)
    wavs = [torch.randn(length) / 5 for length in CLIPS]
    alone = torch.stack([encoder.embed(wav) for wav in wavs])
    return float((encoder.embed_all(wavs) - alone).abs().max() / alone.abs().max())


def test_clips_of_one_pass_are_as_if_alone() -> None:
    """To 1e-8: a deviation near the floor of 1e-6 is the root of a variance that float64 knows to 1e-16."""
    assert worst_of_a_pass() < 1e-8


@pytest.mark.parametrize("part", ["reflected", "mean", "beyond"])
def test_ends_that_are_not_each_rows_own_are_noticed(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges, the mean over time, and attention: one at a time looks at the longest row's end."""
    if part == "reflected":
        plain = lambda self, x, edge: F.pad(x, (edge, edge), mode="reflect")  # noqa: E731
        monkeypatch.setattr(Ends, "reflected", plain)
    elif part == "mean":
        monkeypatch.setattr(Ends, "mean", lambda self, x: x.mean(2, keepdim=True))
    else:
        statistics = AttentivePooling.forward

        def blind(self: AttentivePooling, x: torch.Tensor, ends: Ends | None = None) -> torch.Tensor:
            return statistics(self, x, None)

        monkeypatch.setattr(AttentivePooling, "forward", blind)
    assert worst_of_a_pass() > 1e-4


def test_a_clip_that_is_too_short_is_refused_among_others(encoder: SpeakerEncoder) -> None:
    with pytest.raises(RowError, match="1279 samples"):
        encoder.embed_all([torch.randn(24_000), torch.randn(1279)])
