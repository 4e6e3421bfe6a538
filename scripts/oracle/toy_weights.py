"""Seeded random weights that make a random model worth testing against.

Default initialisation hides bugs: unit norms, zero biases, a 0.01 layer scale and nearly uniform logits let a wrong
model agree with a right one. Here every parameter is random at a scale that matters. Two things are arranged:

* Channel 0 of the talker's residual stream is a constant: the text projection writes it into every row and no layer
  changes it. The head uses it as a bias, to bar codes that the small codebooks do not have and to set how likely the
  end of speech is. (Only the row of a speaker vector adds something to it.)
* The codec's last convolution and the encoder's codebooks are scaled by a measurement, so that audio neither clips nor
  vanishes and the encoder uses many codes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from toy_configs import CONTROL, NUM_CODES

BIAS_CHANNEL = 0
BIAS = 3.0
EOS_BIAS = 1.3


def _randn(tensor: Tensor, scale: float, generator: torch.Generator, mean: float = 0.0) -> None:
    tensor.copy_(torch.randn(tensor.shape, generator=generator) * scale + mean)


def _fill(module: nn.Module, generator: torch.Generator, gain: float) -> None:
    """Matrices get `gain / sqrt(fan in)`, norm weights surround one, everything else surrounds zero."""
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1:
            fan_in = parameter[0].numel()
            _randn(parameter, gain / math.sqrt(fan_in), generator)
        elif name.endswith("norm.weight") or "layernorm.weight" in name:
            _randn(parameter, 0.15, generator, mean=1.0)
        else:
            _randn(parameter, 0.1, generator)


@torch.no_grad()
def fill_talker(model: Any, seed: int) -> None:
    """Fill talker, code predictor and, where there is one, the speaker encoder of the official model."""
    generator = torch.Generator().manual_seed(seed)
    _fill(model, generator, gain=1.2)
    talker = model.talker
    _randn(talker.model.text_embedding.weight, 1.0, generator)
    _randn(talker.model.codec_embedding.weight, 0.7, generator)
    for table in talker.code_predictor.model.codec_embedding:
        _randn(table.weight, 0.25, generator)
    for head in talker.code_predictor.lm_head:
        _randn(head.weight, 0.8, generator)
    _reserve_bias_channel(talker)
    _fill_head(talker, generator)
    if model.speaker_encoder is not None:
        model.speaker_encoder.fc.weight.mul_(0.35)


def _reserve_bias_channel(talker: Any) -> None:
    tables = [talker.model.codec_embedding, *talker.code_predictor.model.codec_embedding]
    for table in tables:
        table.weight[:, BIAS_CHANNEL] = 0.0
    talker.text_projection.linear_fc2.weight[BIAS_CHANNEL] = 0.0
    talker.text_projection.linear_fc2.bias[BIAS_CHANNEL] = BIAS
    for layer in talker.model.layers:
        for output in (layer.self_attn.o_proj, layer.mlp.down_proj):
            output.weight.mul_(0.6)
            output.weight[BIAS_CHANNEL] = 0.0
    talker.model.norm.weight[BIAS_CHANNEL] = 1.0


def _fill_head(talker: Any, generator: torch.Generator) -> None:
    weight, eos = talker.codec_head.weight, CONTROL["codec_eos_token_id"]
    _randn(weight, 0.6, generator)
    weight[NUM_CODES:2048] *= 0.25
    weight[:, BIAS_CHANNEL] = 0.0
    weight[NUM_CODES:2048, BIAS_CHANNEL] = -12.0
    weight[eos, BIAS_CHANNEL] = EOS_BIAS


@torch.no_grad()
def fill_codec(model: Any, seed: int) -> None:
    """Fill the official codec: decoder, encoder, and codebooks on both sides (all stored as sums and usages)."""
    generator = torch.Generator().manual_seed(seed)
    _fill(model, generator, gain=1.0)
    for name, parameter in model.named_parameters():
        if name.endswith("cluster_usage"):
            parameter.copy_(torch.rand(parameter.shape, generator=generator) * 2 + 0.5)
        elif name.endswith((".alpha", ".beta", ".gamma", "layer_scale.scale")):
            _randn(parameter, 0.3, generator)
    _calm_residual_units(model.decoder)
    usages = dict(model.decoder.named_parameters())
    for name, parameter in usages.items():
        if name.endswith("embedding_sum"):
            _randn(parameter, 1.0, generator)
            parameter.mul_(usages[name.replace("embedding_sum", "cluster_usage")][:, None])
    _scale_output(model.decoder, generator)
    _fit_books(model.encoder, generator)


def _calm_residual_units(decoder: nn.Module) -> None:
    """Keep the residual branches small, as trained ones are.

    Twelve units at full gain drive the sines of the Snakes round many times, and such a network turns float32 rounding
    into 1e-4 of its output: two correct implementations would differ by more than a wrong one may.
    """
    for name, parameter in decoder.named_parameters():
        if name.endswith(".conv2.conv.weight"):
            parameter.mul_(0.3)


def _scale_output(decoder: Any, generator: torch.Generator) -> None:
    """Bring audio of random codes to a standard deviation of 0.2 around zero."""
    last = decoder.decoder[-1].conv
    last.weight.mul_(1e-3)
    last.bias.zero_()
    audio = decoder(torch.randint(NUM_CODES, (1, 16, 40), generator=generator))
    factor = 0.2 / audio.std()
    last.weight.mul_(factor)
    last.bias.sub_(audio.mean() * factor)


def _fit_books(encoder: Any, generator: torch.Generator) -> None:
    """Draw codewords around the mean residual that probe audio leaves at each stage, as wide as that residual."""
    probe = torch.from_numpy(probe_audio(24000 * 4, seed=5))[None, None]
    latents: list[Tensor] = []
    hook = encoder.downsample.register_forward_hook(lambda _m, _i, output: latents.append(output))
    encoder.encode(probe, return_dict=True)
    hook.remove()
    split = encoder.quantizer
    for branch in (split.semantic_residual_vector_quantizer, split.acoustic_residual_vector_quantizer):
        residual = branch.input_proj(latents[0])[0].T
        for layer in branch.layers:
            book = layer.codebook
            points = residual.mean(0) + residual.std(0) * torch.randn(book.embed_sum.shape, generator=generator)
            book.cluster_usage.copy_(torch.rand(NUM_CODES, generator=generator) * 2 + 0.5)
            book.embed_sum.copy_(points * book.cluster_usage[:, None])
            book._embed = None
            residual = residual - book.decode(book.quantize(residual))


def probe_audio(samples: int, seed: int) -> np.ndarray:
    """A gliding tone with harmonics, a beating envelope and noise, [samples] float32 on the 16-bit grid."""
    rng = np.random.default_rng(seed)
    t = np.arange(samples) / 24000
    phase = 2 * np.pi * (rng.uniform(90, 250) * t + rng.uniform(20, 60) * np.sin(2 * np.pi * rng.uniform(0.5, 2) * t))
    tone = sum(np.sin(k * phase + rng.uniform(0, 6)) / k for k in range(1, 6))
    envelope = 0.55 + 0.45 * np.sin(2 * np.pi * rng.uniform(2, 4) * t + rng.uniform(0, 6))
    audio = 0.2 * tone * envelope + 0.03 * rng.standard_normal(samples)
    return (np.round(audio.clip(-1, 1) * 32767) / 32768).astype(np.float32)
