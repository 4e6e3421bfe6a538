"""The codec decoder as it trains: the module itself, fed with sums of codebook rows, with some layers exchanged.

What is exchanged computes the same function and has the same parameters; a test holds the two equal. Rows are summed
outside of a training step, so that a captured step need not look them up.

Shapes: B crops, F frames, Q codebooks, K codebook size, E width of a codebook row, C channels, n positions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scripts.train_tiny.config import CODEBOOK_SIZE, NUM_CODEBOOKS, ROW_WIDTH, codec_modules, fill_codebooks
from ttsbench.models.qwen3_tts.codec_config import NUM_SEMANTIC
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.codec_layers import CausalUpsampler, ConvNeXtBlock, Snake
from ttsbench.models.qwen3_tts.codec_past import Past
from ttsbench.models.qwen3_tts.codec_quantizer import SplitDequantizer
from ttsbench.models.qwen3_tts.codec_transformer import LayerScale

BRANCH_START = 0.1
"""Where the scales of the residual branches start. The published 0.01 and 1e-6 suit a longer training than this."""


def build_decoder(books: Tensor) -> CodecDecoder:
    """A fresh decoder with the fitted codebooks [Q, K, E]."""
    decoder = codec_modules()[1]
    fill_codebooks(decoder.quantizer, books)
    for module in decoder.modules():
        if isinstance(module, LayerScale):
            nn.init.constant_(module.scale, BRANCH_START)
        elif isinstance(module, ConvNeXtBlock):
            nn.init.constant_(module.gamma, BRANCH_START)
    for group in (decoder.quantizer.rvq_first, decoder.quantizer.rvq_rest):
        group.input_proj.requires_grad_(False)  # part of the file, of no use to a decoder
    return decoder


def row_sums(books: Tensor, codes: Tensor, keep: Tensor) -> Tensor:
    """Summed rows [B, F, 2 E], semantic then acoustic, of the first `keep` [B] levels of `codes` [B, F, Q]."""
    offsets = torch.arange(NUM_CODEBOOKS, device=codes.device) * CODEBOOK_SIZE
    rows = F.embedding(codes + offsets, books.flatten(0, 1))
    kept = torch.arange(NUM_CODEBOOKS, device=codes.device) < keep[:, None]
    rows = rows * kept[:, None, :, None]
    return torch.cat((rows[:, :, :NUM_SEMANTIC].sum(2), rows[:, :, NUM_SEMANTIC:].sum(2)), 2)


def train_on_row_sums(decoder: CodecDecoder) -> None:
    """Let `decoder` read `row_sums` in the place of codes, and use the layers that train fast.

    Only the instance at hand is changed, and no parameter: its state dict is that of any `CodecDecoder`.
    """
    for module in decoder.modules():
        if isinstance(module, SplitDequantizer):
            module.forward = partial(_project, module)  # type: ignore[method-assign]
        elif isinstance(module, CausalUpsampler):
            module.forward = partial(_upsample, module)  # type: ignore[method-assign]
        elif isinstance(module, Snake):
            module.forward = partial(_snake_for(module.alpha.device), module)  # type: ignore[method-assign]


def _project(quantizer: SplitDequantizer, sums: Tensor) -> Tensor:
    first, rest = quantizer.rvq_first.output_proj.weight, quantizer.rvq_rest.output_proj.weight
    semantic, acoustic = torch.split(sums, ROW_WIDTH, dim=2)
    return (F.linear(semantic, first.squeeze(2)) + F.linear(acoustic, rest.squeeze(2))).transpose(1, 2)


def _upsample(module: CausalUpsampler, x: Tensor, past: Past) -> Tensor:
    """The same convolution by the library, whose backward needs less memory; nothing comes before a crop."""
    return module.conv(x)[:, :, : x.shape[2] * module.stride]


def _snake_for(device: torch.device) -> Callable[[Snake, Tensor], Tensor]:
    if device.type == "cuda":
        from scripts.train_tiny.snake import snake  # Triton is not where there is no GPU

        return snake
    return plain_snake


def plain_snake(module: Snake, x: Tensor) -> Tensor:
    """The module's formula from its parameters as they are now, not as they were when it was finalised."""
    gain = (module.beta.exp() + 1e-9).reciprocal().unsqueeze(1)
    return x + (x * module.alpha.exp().unsqueeze(1)).sin().square() * gain
