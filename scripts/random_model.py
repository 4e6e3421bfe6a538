"""Qwen3-TTS of the released shapes with seeded random weights, made on the device: speed without a checkpoint.

Time does not depend on what weights say, as long as nothing overflows: matrices of talker and code predictor are drawn
with deviation 0.02, as before training; the codec's by their fan-in, its residual branches and its output scaled down,
so that PCM is neither silent nor clipped. Nothing is made on the host, and no file is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import nn

from ttsbench.models.qwen3_tts.codec_config import CodecDecoderConfig
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.config import ControlIds, ModelType, Qwen3TTSConfig, TextIds, TransformerConfig
from ttsbench.models.qwen3_tts.talker import Talker

TALKER_STD = 0.02
RESIDUAL_GAIN = 0.3
"""Of the last convolution of a residual unit: trained branches are small too."""
OUTPUT_GAIN = 0.5
"""Of the codec's last convolution: PCM then has a deviation of about 0.16."""
CODEWORD_GAIN = 4.0
"""Codewords of 16 books, a quarter each, add up to vectors of deviation 1."""
SCALE = 0.1
"""Layer scale of the codec's transformer and of its ConvNeXt blocks."""


@dataclass(frozen=True)
class Shape:
    """What decides the size of every tensor."""

    config: Qwen3TTSConfig
    codec: CodecDecoderConfig


def _released(hidden_size: int, intermediate_size: int, size: str) -> Shape:
    predictor = TransformerConfig(
        hidden_size=1024, intermediate_size=3072, num_layers=5, num_heads=16, num_kv_heads=8, head_dim=128,
        rms_norm_eps=1e-6, rope_theta=1e6, max_positions=65_536,
    )  # fmt: skip
    config = Qwen3TTSConfig(
        model_type=ModelType.CUSTOM_VOICE,
        model_size=size,
        talker=replace(
            predictor, hidden_size=hidden_size, intermediate_size=intermediate_size, num_layers=28, max_positions=32_768
        ),
        predictor=predictor,
        talker_vocab_size=3072,
        codebook_size=2048,
        num_codebooks=16,
        text_vocab_size=151_936,
        text_hidden_size=2048,
        control=ControlIds(eos=2150, pad=2148, bos=2149, think=2154, nothink=2155, think_bos=2156, think_eos=2157),
        text=TextIds(im_start=151_644, im_end=151_645, tts_pad=151_671, tts_bos=151_672, tts_eos=151_673),
        languages={"english": 2050},
        speakers={"ryan": 3061},
        dialects={},
    )
    return Shape(config, CodecDecoderConfig.released())


def _toy() -> Shape:
    """The released structure with few layers and codebooks and small widths; a frame still has 1,920 samples."""
    released = _released(24, 32, "1b7")
    talker = replace(released.config.talker, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=16, max_positions=4096)
    predictor = replace(talker, hidden_size=20, intermediate_size=28, num_layers=1)
    codec = replace(
        released.codec, num_codebooks=4, codebook_dim=16, latent_dim=24, decoder_dim=32, hidden_size=16,
        intermediate_size=24, num_layers=1, num_heads=2, num_kv_heads=2, head_dim=8, window=8,
    )  # fmt: skip
    config = replace(
        released.config,
        talker=talker,
        predictor=predictor,
        num_codebooks=4,
        text_vocab_size=151_700,
        text_hidden_size=4,
    )
    return Shape(config, codec)


SHAPES = {"1.7b": _released(2048, 6144, "1b7"), "0.6b": _released(1024, 3072, "0b6"), "toy": _toy()}


@torch.no_grad()
def random_talker(config: Qwen3TTSConfig, device: torch.device, dtype: torch.dtype, seed: int = 0) -> Talker:
    """Talker and code predictor, frozen, in `dtype`."""
    with torch.device("meta"):
        talker = Talker(config).to(dtype)
    talker = talker.to_empty(device=device).requires_grad_(False).eval()
    generator = torch.Generator(device).manual_seed(seed)
    for parameter in talker.parameters():
        if parameter.ndim > 1:
            parameter.normal_(0, TALKER_STD, generator=generator)
    _fill_vectors(talker)
    return talker


@torch.no_grad()
def random_codec(config: CodecDecoderConfig, device: torch.device, dtype: torch.dtype, seed: int = 0) -> CodecDecoder:
    """The codec's decoder, frozen, finalized in float32 and then lowered to `dtype`."""
    with torch.device("meta"):
        decoder = CodecDecoder(config)
    decoder = decoder.to_empty(device=device).requires_grad_(False).eval()
    generator = torch.Generator(device).manual_seed(seed)
    for name, tensor in decoder.state_dict().items():
        if name.endswith("cluster_usage"):
            tensor.fill_(1)
        elif tensor.ndim > 1:
            gain = OUTPUT_GAIN if tensor.shape[0] == 1 else _codec_gain(name)
            tensor.normal_(0, gain / math.sqrt(tensor[0].numel()), generator=generator)
    _fill_vectors(decoder)
    decoder.finalize()
    return decoder.to(dtype)


def _codec_gain(name: str) -> float:
    if name.endswith("embedding_sum"):
        return CODEWORD_GAIN
    return RESIDUAL_GAIN if name.endswith(".conv2.conv.weight") else 1.0


def _fill_vectors(module: nn.Module) -> None:
    """Norms are 1, layer scales small, biases and the logarithms of Snake 0."""
    for name, parameter in module.named_parameters():
        if parameter.ndim == 1:
            last = name.rsplit(".", 1)[-1]
            parameter.fill_({"weight": 1.0, "gamma": SCALE, "scale": SCALE}.get(last, 0.0))
