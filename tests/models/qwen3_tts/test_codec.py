"""The codec's names, sizes, shapes and layers. Numbers come from the published files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.models.qwen3_tts.codec_toys import (
    DECODER,
    ENCODER,
    output_layer,
    random_codes,
    random_weights,
    toy_decoder,
)
from ttsbench.core import RowError
from ttsbench.models.qwen3_tts.codec import Codec
from ttsbench.models.qwen3_tts.codec_config import CodecConfig, CodecEncoderConfig
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.codec_encoder import CodecEncoder, StridedConv
from ttsbench.models.qwen3_tts.codec_layers import SHORT, CausalConv, CausalUpsampler, Snake
from ttsbench.models.qwen3_tts.codec_past import NoPast, visibility


@pytest.fixture(autouse=True)
def no_autograd() -> Iterator[None]:
    with torch.inference_mode():
        yield


# Names and sizes


def payload(module: nn.Module) -> tuple[int, int]:
    tensors = module.state_dict().values()
    return len(tensors), 4 * sum(tensor.numel() for tensor in tensors)


def test_released_sizes_are_those_of_the_published_file() -> None:
    """F32 payload 682,229,764 B in 496 tensors, and 114,028,225 decoder weights that decoding reads."""
    with torch.device("meta"):
        codec = Codec(CodecConfig.released())
    assert payload(codec.decoder) == (271, 457_292_548)
    assert payload(codec.encoder) == (225, 224_937_216)
    assert payload(codec) == (496, 682_229_764)
    unread = ("input_proj.weight", "cluster_usage")
    names = {n: t.numel() for n, t in codec.decoder.state_dict().items()}
    read = sum(n for name, n in names.items() if not (name.startswith("quantizer") and name.endswith(unread)))
    assert read == 114_028_225


def test_names_are_the_published_ones() -> None:
    """A sample of every kind of name; the counts above hold the rest together."""
    with torch.device("meta"):
        names = Codec(CodecConfig.released()).state_dict().keys()
    assert set(names) >= {
        "decoder.quantizer.rvq_first.input_proj.weight",
        "decoder.quantizer.rvq_rest.output_proj.weight",
        "decoder.quantizer.rvq_rest.vq.layers.14._codebook.embedding_sum",
        "decoder.quantizer.rvq_first.vq.layers.0._codebook.cluster_usage",
        "decoder.pre_conv.conv.bias",
        "decoder.pre_transformer.input_proj.bias",
        "decoder.pre_transformer.layers.7.self_attn.o_proj.weight",
        "decoder.pre_transformer.layers.7.self_attn_layer_scale.scale",
        "decoder.pre_transformer.layers.7.mlp.gate_proj.weight",
        "decoder.pre_transformer.layers.7.mlp_layer_scale.scale",
        "decoder.pre_transformer.layers.7.post_attention_layernorm.weight",
        "decoder.pre_transformer.norm.weight",
        "decoder.upsample.1.0.conv.weight",
        "decoder.upsample.1.1.dwconv.conv.weight",
        "decoder.upsample.1.1.pwconv2.bias",
        "decoder.upsample.1.1.gamma",
        "decoder.decoder.0.conv.weight",
        "decoder.decoder.4.block.0.alpha",
        "decoder.decoder.4.block.1.conv.weight",
        "decoder.decoder.4.block.4.act2.beta",
        "decoder.decoder.4.block.4.conv2.conv.weight",
        "decoder.decoder.5.alpha",
        "decoder.decoder.6.conv.bias",
        "encoder.encoder.layers.0.conv.weight",
        "encoder.encoder.layers.10.block.3.conv.bias",
        "encoder.encoder.layers.14.conv.weight",
        "encoder.encoder_transformer.layers.7.mlp.fc1.weight",
        "encoder.encoder_transformer.layers.7.input_layernorm.bias",
        "encoder.downsample.conv.weight",
        "encoder.quantizer.semantic_residual_vector_quantizer.input_proj.weight",
        "encoder.quantizer.acoustic_residual_vector_quantizer.layers.30.codebook.initialized",
        "encoder.quantizer.acoustic_residual_vector_quantizer.layers.30.codebook.embed_sum",
    }


# Layers against the formula they replace


@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (7, 1), (7, 3), (7, 9)])
@pytest.mark.parametrize("n", [1, 4, SHORT, SHORT + 1])
def test_a_causal_convolution_is_torchs_with_zeros_in_front(kernel: int, dilation: int, n: int) -> None:
    """Both sides of SHORT compute the same thing."""
    layer = CausalConv(5, 6, kernel, dilation).double()
    x = torch.randn(2, 5, n, dtype=torch.float64)
    want = layer.conv(nn.functional.pad(x, ((kernel - 1) * dilation, 0)))
    torch.testing.assert_close(layer(x, NoPast(n, None, x.device, x.dtype)), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (6, 3), (16, 8), (9, 3)])
def test_an_upsampler_is_torchs_transposed_convolution_cut_to_length(kernel: int, stride: int) -> None:
    layer = CausalUpsampler(5, 4, kernel, stride).double()
    x = torch.randn(2, 5, 11, dtype=torch.float64)
    want = layer.conv(x)[:, :, : 11 * stride]
    torch.testing.assert_close(layer(x, NoPast(11, None, x.device, x.dtype)), want, rtol=0, atol=1e-12)


def test_a_window_holds_the_query_and_the_frames_before_it() -> None:
    """72 keys for the query at 80: 9 to 80. Rows of frames that do not exist, and later frames, are never seen."""
    queries, keys = torch.tensor([[80], [3]]), torch.arange(-20, 100).expand(2, -1)
    seen = visibility(queries, keys, 72, torch.float32)[:, 0, 0] == 0
    assert keys[0][seen[0]].tolist() == list(range(9, 81))
    assert keys[1][seen[1]].tolist() == [0, 1, 2, 3]


# Derived tensors


def test_a_decoder_that_was_not_finalised_refuses_to_decode() -> None:
    decoder = CodecDecoder(DECODER)
    with pytest.raises(RuntimeError, match=r"call finalize\(\) after loading weights"):
        decoder.decode(random_codes(DECODER, 1, 2))


def test_an_encoder_that_was_not_finalised_refuses_to_encode() -> None:
    with pytest.raises(RuntimeError, match=r"call finalize\(\)"):
        CodecEncoder(ENCODER).encode(torch.zeros(100))


def test_loading_weights_again_undoes_finalize() -> None:
    """Else the codebooks of the previous weights would be decoded. Goes red without the load hook in Derived."""
    decoder = toy_decoder()
    state = {name: tensor * 1.5 for name, tensor in decoder.state_dict().items()}
    decoder.load_state_dict(state)
    with pytest.raises(RuntimeError, match="finalize"):
        decoder.decode(random_codes(DECODER, 1, 2))


def test_codebook_rows_are_means_with_a_floor_under_the_usage() -> None:
    decoder = CodecDecoder(DECODER)
    random_weights(decoder)
    book = decoder.get_submodule("quantizer.rvq_rest.vq.layers.1._codebook")
    usage, sums = book.get_buffer("cluster_usage"), book.get_buffer("embedding_sum")
    usage[3] = 0
    decoder.finalize()
    rows = decoder.quantizer.derived("table")[2 * 32 : 3 * 32]
    assert torch.equal(rows[4], sums[4] / usage[4])
    assert torch.equal(rows[3], sums[3] / 1e-5)


def test_snake_is_its_formula() -> None:
    snake = Snake(3).double()
    random_weights(snake)
    snake.derive()
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    a, b = snake.alpha.exp()[:, None], snake.beta.exp()[:, None]
    torch.testing.assert_close(snake(x), x + (x * a).sin() ** 2 / (b + 1e-9), rtol=1e-14, atol=1e-14)


# Decode


@pytest.mark.parametrize("frames", [0, 1, 7])
def test_pcm_has_hop_samples_per_frame(frames: int) -> None:
    decoder = toy_decoder(dtype=torch.float32)
    for pcm in (
        decoder.decode(random_codes(DECODER, 2, frames)),
        decoder.decode_chunked(random_codes(DECODER, 2, frames)),
    ):
        assert pcm.shape == (2, frames * DECODER.hop)
        assert pcm.dtype == torch.float32


def test_chunked_equals_whole_up_to_one_chunk_and_approximates_it_beyond() -> None:
    """Beyond, the published decode forgets what lies more than 25 frames before a chunk."""
    decoder = toy_decoder()
    codes = random_codes(DECODER, 1, 330)
    assert torch.equal(decoder.decode_chunked(codes[:, :300]), decoder.decode(codes[:, :300]))
    chunked, whole = decoder.decode_chunked(codes), decoder.decode(codes)
    edge = 300 * decoder.hop
    assert torch.allclose(chunked[:, :edge], whole[:, :edge], rtol=0, atol=1e-10)
    assert (chunked[:, edge:] - whole[:, edge:]).abs().max() > 1e-4
    second = decoder.decode(codes[:, 275:])[:, 25 * decoder.hop :]
    assert torch.equal(chunked[:, edge:], second)


def test_output_is_clamped_to_full_scale() -> None:
    decoder = toy_decoder()
    output_layer(decoder).conv.weight.mul_(50)
    assert decoder.decode(random_codes(DECODER, 1, 30)).abs().max() == 1


def test_lower_precision_after_finalize_decodes_float32_pcm() -> None:
    """Derived tensors follow `.to()`. The bound is a quarter of the signal: bfloat16 has 8 bits, the toy amplifies."""
    codes = random_codes(DECODER, 1, 40)
    pcm = toy_decoder().bfloat16().decode(codes)
    assert pcm.dtype == torch.float32
    assert (pcm - toy_decoder().decode(codes)).square().mean().sqrt() < 0.05


@pytest.mark.parametrize("code", [-1, 32])
def test_a_code_outside_its_codebook_is_an_error(code: int) -> None:
    """In one stacked table it would read its neighbour's row."""
    codes = random_codes(DECODER, 1, 3)
    codes[0, 1, 2] = code
    with pytest.raises(ValueError, match=r"codes must lie in \[0, 32\)"):
        toy_decoder().decode(codes)


def test_codes_of_the_wrong_shape_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"\[rows, frames, 4\]"):
        toy_decoder().decode(torch.ones(1, 4, 9, dtype=torch.int64))


# Encode


@pytest.fixture(scope="module")
def encoder() -> CodecEncoder:
    encoder = CodecEncoder(ENCODER)
    random_weights(encoder)
    encoder.finalize()
    return encoder


@pytest.mark.parametrize("samples", [1, 959, 1919, 1920, 1921, 3840, 3841, 24_000])
def test_frames_are_the_started_hops(encoder: CodecEncoder, samples: int) -> None:
    codes = encoder.encode(torch.randn(samples))
    assert codes.shape == (math.ceil(samples / 1920), ENCODER.num_codebooks)
    assert codes.dtype == torch.int64
    assert 0 <= codes.min() <= codes.max() < ENCODER.codebook_size


def test_codes_are_nearest_rows_of_what_is_left(encoder: CodecEncoder) -> None:
    """By brute force in float64; both branches start from the same features."""
    wav = torch.randn(19_200)
    features, codes = encoder.features(wav).double(), encoder.encode(wav)
    branches = (
        encoder.quantizer.semantic_residual_vector_quantizer,
        encoder.quantizer.acoustic_residual_vector_quantizer,
    )
    want = []
    for branch in branches:
        left = features @ branch.input_proj.weight[:, :, 0].double().T
        for layer in list(branch.layers)[: branch.used]:
            rows = layer.get_submodule("codebook").rows().double()  # type: ignore[operator]
            nearest = torch.cdist(left, rows, compute_mode="donot_use_mm_for_euclid_dist").argmin(1)
            left = left - rows[nearest]
            want.append(nearest)
    assert torch.equal(codes, torch.stack(want, 1))
    assert codes.unique().numel() > ENCODER.codebook_size // 2


def test_encoding_is_causal_up_to_the_frame_at_hand(encoder: CodecEncoder) -> None:
    """Later audio cannot change an earlier frame. Holds at whole frames, where no padding is needed on the right."""
    wav = torch.randn(1920 * 8)
    assert torch.equal(encoder.encode(wav)[:5], encoder.encode(wav[: 1920 * 5]))


def test_only_the_codebooks_in_use_are_computed() -> None:
    """The stored rest may hold anything."""
    encoder = CodecEncoder(replace(ENCODER, stored_codebooks=9))
    random_weights(encoder)
    for layer in list(encoder.quantizer.acoustic_residual_vector_quantizer.layers)[3:]:
        layer.get_submodule("codebook").get_buffer("embed_sum").fill_(torch.nan)
    encoder.finalize()
    assert encoder.encode(torch.randn(1920)).shape == (1, 4)
    assert isinstance(encoder.config, CodecEncoderConfig)


def test_empty_audio_is_the_rows_fault(encoder: CodecEncoder) -> None:
    with pytest.raises(RowError) as caught:
        encoder.encode(torch.zeros(0))
    assert caught.value.code == "empty_reference"


def test_stereo_is_an_error(encoder: CodecEncoder) -> None:
    with pytest.raises(ValueError, match="mono"):
        encoder.encode(torch.zeros(2, 100))


LENGTHS = (24_000, 1, 961, 1919, 1920, 1921, 11_041, 23_999)
"""Every stride lacks something at some end; the last convolution has an even and an odd number of positions."""


def test_clips_of_one_pass_are_as_if_alone() -> None:
    """At 1e-10 in float64, and all their codes. Goes red when a row is padded behind the longest one's end instead of
    its own (leave `_ended` out), or at every stride alike.
    """
    encoder = CodecEncoder(ENCODER).double()
    random_weights(encoder)
    encoder.finalize()
    wavs = [torch.randn(length, dtype=torch.float64) for length in LENGTHS]
    for wav, features, codes in zip(wavs, encoder.features_all(wavs), encoder.encode_all(wavs), strict=True):
        torch.testing.assert_close(features, encoder.features(wav), rtol=0, atol=1e-10)
        assert torch.equal(codes, encoder.encode(wav))


@pytest.mark.parametrize("kind", ["constant", "replicate"])
def test_ends_that_are_not_each_rows_own_are_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kind of padding at a time is left to the longest row."""
    encoder = CodecEncoder(ENCODER).double()
    random_weights(encoder)
    encoder.finalize()
    ended = StridedConv._ended
    monkeypatch.setattr(StridedConv, "_ended", lambda self, x, ends: x if self.pad == kind else ended(self, x, ends))
    wavs = [torch.randn(length, dtype=torch.float64) for length in LENGTHS]
    pairs = zip(wavs, encoder.features_all(wavs), strict=True)
    assert max(float((features - encoder.features(wav)).abs().max()) for wav, features in pairs) > 1e-3


def test_a_pass_over_nothing_but_equal_lengths_is_the_plain_one(encoder: CodecEncoder) -> None:
    """Byte for byte, one clip is what it always was: nothing is masked or gathered."""
    wav = torch.randn(5000)
    assert torch.equal(encoder.features_all([wav])[0], encoder.features(wav))
    with pytest.raises(RowError):
        encoder.encode_all([wav, torch.zeros(0)])
