"""24 kHz PCM -> codes (Mimi), used only to hear a reference voice, with the names of the published file.

    PCM -> convolutions /4 /5 /6 /8 (25 Hz) -> transformer -> convolution /2 (12.5 Hz) -> nearest codebook rows

Each convolution pads (kernel - stride) zeros before its input and after it what the last stride lacks, so a codec frame
exists for every started hop: F = ceil(samples / hop). The file stores 31 acoustic codebooks; the talker knows 15.
The two quantiser branches start from the same vector; within a branch each codebook codes what the last one left.

Attention sees all of the past. The config's `sliding_window` of 250 positions (10 s of audio) is not read: the
published code ignores it too, except under flash attention, where its codes of longer references are others.

Clips of several lengths share a pass, each as if it were alone: all is causal but for what a stride lacks at the end,
which every row gets at its own (`ends`); what is computed beyond an end is dropped.

Shapes: B rows, C channels, n positions, F frames, Q codebooks, N codebook size, E codebook row width.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from ttsbench.core import RowError
from ttsbench.models.device import ids_on
from ttsbench.models.qwen3_tts.codec_config import ENCODER_DOWNSAMPLE, NUM_SEMANTIC, CodecEncoderConfig
from ttsbench.models.qwen3_tts.codec_layers import Derived, finalize
from ttsbench.models.qwen3_tts.codec_past import NoPast
from ttsbench.models.qwen3_tts.codec_quantizer import codebook_rows
from ttsbench.models.qwen3_tts.codec_transformer import EncoderTransformer


class StridedConv(nn.Module):
    """Causal convolution with a stride: ceil(n / stride) outputs for n inputs."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        stride: int = 1,
        bias: bool = True,
        pad: str = "constant",
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel, stride, bias=bias)
        self.left = kernel - stride
        self.stride = stride
        self.pad = pad

    def forward(self, x: Tensor, ends: Tensor | None = None) -> Tensor:
        """`ends` [B]: positions that each row really has; None: all. Of what follows them it takes no notice."""
        right = -x.shape[2] % self.stride
        if ends is not None and self.stride > 1:
            x = self._ended(x, ends.unsqueeze(1))
        return self.conv(F.pad(x, (self.left, right), mode=self.pad))

    def _ended(self, x: Tensor, ends: Tensor) -> Tensor:
        """`x` with every row padded from its own end [B, 1] on."""
        here = torch.arange(x.shape[2], device=x.device)
        if self.pad == "constant":
            return x.masked_fill((here >= ends).unsqueeze(1), 0)
        last = torch.minimum(here, ends - 1).unsqueeze(1)
        return x.gather(2, last.expand_as(x))


class ResidualBlock(nn.Module):
    """ELU, narrow convolution, ELU, convolution k1 back, plus the input."""

    def __init__(self, channels: int, kernel: int, compress: int) -> None:
        super().__init__()
        inner = channels // compress
        convs = StridedConv(channels, inner, kernel), StridedConv(inner, channels, 1)
        self.block = nn.ModuleList([nn.ELU(), convs[0], nn.ELU(), convs[1]])

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for layer in self.block:
            y = layer(y)
        return x + y


class ConvStack(nn.Module):
    """PCM [B, 1, samples] -> features [B, C, n] at 25 Hz."""

    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        widths = [config.num_filters << i for i in range(len(config.ratios) + 1)]
        layers: list[nn.Module] = [StridedConv(1, widths[0], config.kernel_size)]
        for (width, wider), ratio in zip(pairwise(widths), reversed(config.ratios), strict=True):
            layers.append(ResidualBlock(width, config.residual_kernel_size, config.compress))
            layers += [nn.ELU(), StridedConv(width, wider, 2 * ratio, ratio)]
        layers += [nn.ELU(), StridedConv(widths[-1], config.hidden_size, config.last_kernel_size)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, ends: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            if ends is None or not isinstance(layer, StridedConv):
                x = layer(x)
            else:
                x, ends = layer(x, ends), -(-ends // layer.stride)
        return x


class _Codebook(nn.Module):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.register_buffer("initialized", torch.ones(1))  # training's flag, part of the file
        self.register_buffer("cluster_usage", torch.ones(size))
        self.register_buffer("embed_sum", torch.zeros(size, width))

    def rows(self) -> Tensor:
        return codebook_rows(self.get_buffer("embed_sum"), self.get_buffer("cluster_usage"))


class _VectorQuantizer(nn.Module):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.codebook = _Codebook(size, width)


class ResidualQuantizer(Derived):
    """Nearest rows of `used` codebooks in turn, each on what is left. `output_proj` has no use in this direction."""

    def __init__(self, config: CodecEncoderConfig, stored: int, used: int) -> None:
        super().__init__("table", "half_norms")
        self.used = used
        self.input_proj = nn.Conv1d(config.hidden_size, config.codebook_dim, 1, bias=False)
        self.output_proj = nn.Conv1d(config.codebook_dim, config.hidden_size, 1, bias=False)
        self.layers = nn.ModuleList(_VectorQuantizer(config.codebook_size, config.codebook_dim) for _ in range(stored))

    def derive(self) -> None:
        books = [module.rows() for module in self.modules() if isinstance(module, _Codebook)]
        self.table = torch.stack(books[: self.used])
        self.half_norms = self.table.square().sum(2) / 2

    def forward(self, x: Tensor) -> Tensor:
        """Codes [F, used] of features `x` [F, D]. Distances |x - e|^2 / 2 - |x|^2 / 2, in float32 at least."""
        table, half_norms = self.derived("table"), self.derived("half_norms")
        left = F.linear(x, self.input_proj.weight.squeeze(2)).to(table.dtype)
        codes = []
        for rows, half_norm in zip(table, half_norms, strict=True):
            code = (half_norm - left @ rows.T).argmin(1)
            left = left - rows[code]
            codes.append(code)
        return torch.stack(codes, dim=1)


class SplitQuantizer(nn.Module):
    """Features [F, D] -> codes [F, Q], the semantic one first."""

    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        acoustic = config.stored_codebooks - NUM_SEMANTIC, config.num_codebooks - NUM_SEMANTIC
        self.semantic_residual_vector_quantizer = ResidualQuantizer(config, NUM_SEMANTIC, NUM_SEMANTIC)
        self.acoustic_residual_vector_quantizer = ResidualQuantizer(config, *acoustic)

    def forward(self, x: Tensor) -> Tensor:
        semantic, acoustic = self.semantic_residual_vector_quantizer, self.acoustic_residual_vector_quantizer
        return torch.cat((semantic(x), acoustic(x)), dim=1)


class CodecEncoder(nn.Module):
    """Call `finalize` after loading weights."""

    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.encoder = ConvStack(config)
        self.encoder_transformer = EncoderTransformer(config)
        self.downsample = StridedConv(
            width, width, 2 * ENCODER_DOWNSAMPLE, ENCODER_DOWNSAMPLE, bias=False, pad="replicate"
        )
        self.quantizer = SplitQuantizer(config)

    def finalize(self) -> None:
        """Compute what follows from the weights. Loading weights again undoes it."""
        finalize(self)

    def features(self, wav: Tensor) -> Tensor:
        """What the quantiser codes: vectors [F, D] of `wav` [samples]."""
        return self.features_all([wav])[0]

    def features_all(self, wavs: Sequence[Tensor]) -> list[Tensor]:
        """As `features`, of several clips in one pass."""
        weight = self.downsample.conv.weight
        lengths = [len(wav) for wav in wavs]
        ends = None if len(set(lengths)) == 1 else ids_on(weight.device, lengths)
        x = pad_sequence([wav.to(weight.device, weight.dtype) for wav in wavs], batch_first=True)
        x = self.encoder(x.unsqueeze(1), ends).transpose(1, 2)
        x = self.encoder_transformer(x, NoPast(x.shape[1], None, x.device, x.dtype))
        ends = None if ends is None else -(-ends * ENCODER_DOWNSAMPLE // self.config.hop)
        x = self.downsample(x.transpose(1, 2), ends).transpose(1, 2)
        return [row[: -(-length // self.config.hop)] for row, length in zip(x, lengths, strict=True)]

    def encode(self, wav: Tensor) -> Tensor:
        """Codes [ceil(samples / hop), Q] int64 of mono `wav` [samples] float at the codec's sample rate.

        Raises RowError `empty_reference` for no samples.
        """
        return self.encode_all([wav])[0]

    def encode_all(self, wavs: Sequence[Tensor]) -> list[Tensor]:
        """As `encode`, of several clips in one pass, all as long as the longest. It may round otherwise."""
        for wav in wavs:
            if wav.dim() != 1:
                raise ValueError(f"wav must be mono [samples], got {list(wav.shape)}")
            if not wav.numel():
                raise RowError("empty_reference", "the reference audio has no samples")
        features = self.features_all(wavs)
        codes = self.quantizer(torch.cat(features))
        return list(codes.split([len(rows) for rows in features]))
