"""Codes -> 24 kHz PCM, 1,920 samples per codec frame, with the names of the published file.

    codes -> dequantise -> conv -> transformer -> upsample x2 x2 (ConvNeXt) -> conv -> 4 blocks x8 x5 x4 x3 -> PCM

`decode` handles a whole utterance, `decode_chunked` is the published approximation for long ones, and `codec_stream.py`
decodes frame by frame, equal to `decode`. All three run this one `forward`; only the `Past` differs.
Facts: Qwen3-TTS-Tokenizer-12Hz (QwenLM/Qwen3-TTS, tokenizer_12hz).

Shapes: B rows, F frames, n frames of this call, Q codebooks, C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ttsbench.models.qwen3_tts.codec_config import CodecDecoderConfig
from ttsbench.models.qwen3_tts.codec_layers import (
    CausalConv,
    CausalUpsampler,
    ConvNeXtBlock,
    Snake,
    UpsampleBlock,
    finalize,
    number_sites,
)
from ttsbench.models.qwen3_tts.codec_past import NoPast, Past
from ttsbench.models.qwen3_tts.codec_quantizer import SplitDequantizer
from ttsbench.models.qwen3_tts.codec_transformer import DecoderTransformer

CHUNK_FRAMES = 300
LEFT_CONTEXT_FRAMES = 25
"""Chunk and left context of the published decode."""


class CodecDecoder(nn.Module):
    """Call `finalize` after loading weights. Computes in their dtype; PCM is float32, or float64 from float64."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.config = config
        latent = config.latent_dim
        self.quantizer = SplitDequantizer(config)
        self.pre_conv = CausalConv(config.codebook_dim, latent, 3)
        self.pre_transformer = DecoderTransformer(config)
        self.upsample = nn.ModuleList(
            nn.ModuleList([CausalUpsampler(latent, latent, ratio, ratio), ConvNeXtBlock(latent)])
            for ratio in config.upsampling_ratios
        )
        widths = [config.decoder_dim >> i for i in range(len(config.upsample_rates) + 1)]
        blocks = (UpsampleBlock(width, rate) for width, rate in zip(widths, config.upsample_rates, strict=False))
        self.decoder = nn.ModuleList(
            [CausalConv(latent, widths[0], 7), *blocks, Snake(widths[-1]), CausalConv(widths[-1], 1, 7)]
        )
        self.sites = tuple((site.channels, site.tail) for site in number_sites(self))
        """(channels, tail) of every convolution that needs a past; a stream keeps one tail for each."""

    @property
    def hop(self) -> int:
        """Samples per codec frame."""
        return self.config.hop

    @property
    def dtype(self) -> torch.dtype:
        return self.pre_conv.conv.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.pre_conv.conv.weight.device

    def finalize(self) -> None:
        """Compute what follows from the weights. Loading weights again undoes it."""
        finalize(self)

    def forward(self, codes: Tensor, past: Past) -> Tensor:
        """PCM [B, n * hop] in [-1, 1] of `codes` [B, n, Q] int64 that follow `past`."""
        return self.synthesise(self.latents(codes, past), past)

    def latents(self, codes: Tensor, past: Past) -> Tensor:
        """Output [B, C, n] of the transformer, at one position per frame."""
        x = self.pre_conv(self.quantizer(codes), past)
        return self.pre_transformer(x.transpose(1, 2), past).transpose(1, 2)

    def synthesise(self, x: Tensor, past: Past) -> Tensor:
        """PCM [B, n * hop] of latents `x` [B, C, n]."""
        for stage in self.upsample:
            for layer in stage.children():
                x = layer(x, past)
        first, *blocks, snake, last = self.decoder
        x = first(x, past)
        for block in blocks:
            x = block(x, past)
        pcm = last(snake(x), past).squeeze(1).clamp(-1, 1)
        return pcm if pcm.dtype == torch.float64 else pcm.float()

    def decode(self, codes: Tensor) -> Tensor:
        """PCM [B, F * hop] of whole utterances `codes` [B, F, Q] int64."""
        rows, frames = codes.shape[:2]
        if not frames:
            return torch.zeros(rows, 0, device=codes.device, dtype=torch.promote_types(self.dtype, torch.float32))
        return self(codes, NoPast(frames, self.config.window, codes.device, self.dtype))

    def decode_chunked(
        self, codes: Tensor, chunk_frames: int = CHUNK_FRAMES, left_context_frames: int = LEFT_CONTEXT_FRAMES
    ) -> Tensor:
        """The published decode: as `decode`, in chunks that each re-read some left context; exact up to one chunk."""
        if chunk_frames < 1 or left_context_frames < 0:
            raise ValueError(f"need chunk >= 1 and left context >= 0, got {chunk_frames} and {left_context_frames}")
        if not codes.shape[1]:
            return self.decode(codes)
        pieces = []
        for start in range(0, codes.shape[1], chunk_frames):
            context = min(left_context_frames, start)
            pcm = self.decode(codes[:, start - context : start + chunk_frames])
            pieces.append(pcm[:, context * self.hop :])
        return torch.cat(pieces, dim=1)


def positions_per_frame(config: CodecDecoderConfig) -> list[int]:
    """Inputs that each convolution with a past gets per frame, in the order of `CodecDecoder.sites`."""
    lengths, n = [1], 1
    for ratio in config.upsampling_ratios:
        n *= ratio
        lengths.append(n)
    lengths.append(n)
    for rate in config.upsample_rates:
        lengths.append(n)
        n *= rate
        lengths += [n] * 3
    return [*lengths, n]
