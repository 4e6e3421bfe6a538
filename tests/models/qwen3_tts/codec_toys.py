"""Small codecs with random weights for tests that need no checkpoint."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ttsbench.models.qwen3_tts.codec_config import CodecDecoderConfig, CodecEncoderConfig
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.codec_layers import CausalConv

DECODER = CodecDecoderConfig(
    num_codebooks=4,
    codebook_size=32,
    codebook_dim=16,
    latent_dim=16,
    decoder_dim=32,
    hidden_size=16,
    intermediate_size=24,
    num_layers=2,
    num_heads=4,
    num_kv_heads=4,
    head_dim=8,
    window=72,
    rope_theta=10_000.0,
    rms_norm_eps=1e-5,
    upsampling_ratios=(2, 2),
    upsample_rates=(3, 2),
)
"""The released window and stage order, narrow, with a hop of 24 so that long streams stay cheap."""

ENCODER = CodecEncoderConfig(
    num_codebooks=4,
    stored_codebooks=6,
    codebook_size=16,
    codebook_dim=8,
    num_filters=4,
    kernel_size=7,
    residual_kernel_size=3,
    last_kernel_size=3,
    compress=2,
    ratios=(8, 6, 5, 4),
    hidden_size=16,
    intermediate_size=24,
    num_layers=1,
    num_heads=2,
    num_kv_heads=2,
    head_dim=8,
    rope_theta=10_000.0,
    norm_eps=1e-5,
)
"""The released strides, narrow."""

PEAK = 0.7
"""Largest sample of the calibration utterance: far from the clamp at 1, far from silence."""


def random_weights(root: nn.Module, seed: int = 0) -> None:
    """Weights at which every part matters: no branch scaled down to nothing, no norm or codebook at its default."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in root.state_dict().items():
            if name.endswith("cluster_usage"):
                tensor.uniform_(0, 2, generator=noise)
            elif name.endswith(("embedding_sum", "embed_sum")):
                tensor.normal_(generator=noise)
            elif name.endswith(("scale", "gamma", "norm.weight", "layernorm.weight")):
                tensor.uniform_(0.5, 1, generator=noise)
            elif name.endswith(("alpha", "beta", "bias")):
                tensor.normal_(0, 0.2, generator=noise)
            elif name.endswith("weight"):
                tensor.normal_(0, tensor[0].numel() ** -0.5, generator=noise)


def toy_decoder(config: CodecDecoderConfig = DECODER, dtype: torch.dtype = torch.float64) -> CodecDecoder:
    """A finalised decoder whose output peaks near PEAK."""
    decoder = CodecDecoder(config).to(dtype)
    random_weights(decoder)
    decoder.finalize()
    last = output_layer(decoder).conv
    with torch.no_grad():
        last.weight.mul_(1e-3)  # below the clamp while the scale is measured
        last.get_parameter("bias").zero_()
        peak = decoder.decode(random_codes(config, 1, 100, seed=7)).abs().max()
        last.weight.mul_(PEAK / peak)
    return decoder


def output_layer(decoder: CodecDecoder) -> CausalConv:
    *_, last = decoder.decoder.children()
    assert isinstance(last, CausalConv)
    return last


def random_codes(config: CodecDecoderConfig, rows: int, frames: int, seed: int = 0) -> Tensor:
    """Codes [rows, frames, Q] without the code 0, whose repetition would hide a lost or repeated frame."""
    noise = torch.Generator().manual_seed(seed)
    return torch.randint(1, config.codebook_size, (rows, frames, config.num_codebooks), generator=noise)
