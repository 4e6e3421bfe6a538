"""Speaker encoder of the Base checkpoints: a reference voice -> one vector of talker width (ECAPA-TDNN).

    log mel -> conv k5 -> 3 SE-Res2Net blocks (dilation 2, 3, 4) -> their outputs -> attentive mean and std -> vector

Clips of several lengths share a pass, each as if it were alone: edges are reflected at its own end, means and attention
leave out what lies beyond (`Ends`). The vector is used as it is, without normalisation.

Names are those under `speaker_encoder.` in the published file. A published config stores `enc_dim` and `sample_rate`
alone; the other sizes are the architecture's. The published class takes them as optional fields, which is how a small
test model says its own.

Shapes: B rows, T mel frames, M mel bins, C channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from ttsbench.core import RowError
from ttsbench.models.device import ids_on
from ttsbench.models.qwen3_tts.config import Fields
from ttsbench.models.qwen3_tts.mel import HOP, PAD, log_mel

VARIANCE_FLOOR = 1e-12


@dataclass(frozen=True)
class SpeakerEncoderConfig:
    """Sizes; the defaults are the architecture of every release, `enc_dim` is the talker's width."""

    enc_dim: int
    sample_rate_hz: int = 24_000
    mel_dim: int = 128
    channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    """First convolution, each SE-Res2Net block, and the aggregation of the blocks."""
    kernel_sizes: tuple[int, ...] = (5, 3, 3, 3, 1)
    dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    attention_channels: int = 128
    res2net_scale: int = 8
    se_channels: int = 128

    @property
    def min_samples(self) -> int:
        """Shortest audio whose mel frames outnumber the widest reflected edge of a convolution."""
        edge = max((k - 1) * d // 2 for k, d in zip(self.kernel_sizes, self.dilations, strict=True))
        return max(PAD + 1, (edge + 1) * HOP)

    @classmethod
    def from_json(cls, config: Mapping[str, Any], where: str = "config.json") -> SpeakerEncoderConfig:
        """Read `speaker_encoder_config` of a parsed `config.json`. Raises InvalidInput listing every fault."""
        fields = Fields(config, where).section("speaker_encoder_config")
        values: dict[str, Any] = {
            "enc_dim": fields.get("enc_dim", int),
            "sample_rate_hz": fields.get("sample_rate", int),
        }
        for key, name, kind in _OPTIONAL:
            value = fields.optional(key, kind)
            if value is not None:
                values[name] = tuple(value) if kind is list else value
        fields.raise_problems()
        made = cls(**values)
        if not len(made.channels) == len(made.kernel_sizes) == len(made.dilations):
            fields.fail("enc_channels", "as many as enc_kernel_sizes and enc_dilations", list(made.channels))
        fields.raise_problems()
        return made


_OPTIONAL: tuple[tuple[str, str, type], ...] = (
    ("mel_dim", "mel_dim", int),
    ("enc_channels", "channels", list),
    ("enc_kernel_sizes", "kernel_sizes", list),
    ("enc_dilations", "dilations", list),
    ("enc_attention_channels", "attention_channels", int),
    ("enc_res2net_scale", "res2net_scale", int),
    ("enc_se_channels", "se_channels", int),
)


class Ends:
    """Where each row of a batch ends: `count` [B, 1, 1] frames of `length`."""

    def __init__(self, count: Tensor, length: int) -> None:
        self.count = count.view(-1, 1, 1)
        self.length = length
        self.beyond = torch.arange(length, device=count.device) >= self.count

    def reflected(self, x: Tensor, edge: int) -> Tensor:
        """`x` [B, C, T] with `edge` frames reflected before its start and behind each row's own end."""
        at = torch.arange(-edge, self.length + edge, device=x.device).abs()
        last = self.count - 1
        at = torch.minimum(at, (2 * last - at).abs()).clamp(max=self.length - 1)
        return x.gather(2, at.expand(-1, x.shape[1], -1))

    def mean(self, x: Tensor) -> Tensor:
        """Over the frames of each row [B, C, 1]."""
        return x.masked_fill(self.beyond, 0).sum(2, keepdim=True) / self.count


class ReflectedConv(nn.Conv1d):
    """Convolution over time, as many frames out as in, its edges reflected."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__(in_channels, out_channels, kernel, dilation=dilation, padding="same", padding_mode="reflect")
        self.edge = (kernel - 1) * dilation // 2

    def forward(self, x: Tensor, ends: Ends | None = None) -> Tensor:
        """`ends` None: no row ends before the others."""
        if ends is None or not self.edge:
            return super().forward(x)
        return F.conv1d(ends.reflected(x, self.edge), self.weight, self.bias, dilation=self.dilation)


class ConvReLU(nn.Module):
    """Convolution over time with reflected edges, then ReLU."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = ReflectedConv(in_channels, out_channels, kernel, dilation)

    def forward(self, x: Tensor, ends: Ends | None = None) -> Tensor:
        return self.conv(x, ends).relu_()


class Res2Net(nn.Module):
    """Channels in `scale` parts: the first passes, each later one is convolved together with the result before it."""

    def __init__(self, channels: int, scale: int, kernel: int, dilation: int) -> None:
        super().__init__()
        width = channels // scale
        self.scale = scale
        self.blocks = nn.ModuleList(ConvReLU(width, width, kernel, dilation) for _ in range(scale - 1))

    def forward(self, x: Tensor, ends: Ends | None = None) -> Tensor:
        first, *parts = x.chunk(self.scale, dim=1)
        done = [first]
        for block, part in zip(self.blocks, parts, strict=True):
            # the passed-through part is no result: the second part is convolved alone
            done.append(block(part + done[-1] if len(done) > 1 else part, ends))
        return torch.cat(done, dim=1)


class SqueezeExcite(nn.Module):
    """Channel gates from the mean over time."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.conv1 = ReflectedConv(channels, inner)
        self.conv2 = ReflectedConv(inner, channels)

    def forward(self, x: Tensor, ends: Ends | None = None) -> Tensor:
        mean = x.mean(2, keepdim=True) if ends is None else ends.mean(x)
        return x * self.conv2(self.conv1(mean).relu_()).sigmoid_()


class SERes2NetBlock(nn.Module):
    """Conv k1, Res2Net, conv k1, squeeze-excite, plus the input."""

    def __init__(
        self, in_channels: int, channels: int, kernel: int, dilation: int, config: SpeakerEncoderConfig
    ) -> None:
        super().__init__()
        self.tdnn1 = ConvReLU(in_channels, channels)
        self.res2net_block = Res2Net(channels, config.res2net_scale, kernel, dilation)
        self.tdnn2 = ConvReLU(channels, channels)
        self.se_block = SqueezeExcite(channels, config.se_channels)

    def forward(self, x: Tensor, ends: Ends | None = None) -> Tensor:
        return x + self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x), ends)), ends)


class AttentivePooling(nn.Module):
    """Mean and deviation over time [B, 2 C, 1] of [B, C, T], weighted by attention that sees the plain ones."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.tdnn = ConvReLU(3 * channels, inner)
        self.conv = ReflectedConv(inner, channels)

    def forward(self, x: Tensor, ends: Ends | None = None) -> Tensor:
        if ends is None:
            uniform = torch.full_like(x[:1, :1], 1 / x.shape[2])
        else:
            uniform = (1 / ends.count).to(x.dtype).masked_fill(ends.beyond, 0)
        context = [statistic.expand_as(x) for statistic in self._statistics(x, uniform)]
        scores = self.conv(self.tdnn(torch.cat([x, *context], dim=1)).tanh_())
        if ends is not None:
            scores = scores.masked_fill(ends.beyond, -torch.inf)
        return torch.cat(self._statistics(x, scores.softmax(2)), dim=1)

    @staticmethod
    def _statistics(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        mean = (weight * x).sum(2, keepdim=True)
        variance = (weight * (x - mean).square()).sum(2, keepdim=True)
        return mean, variance.clamp(min=VARIANCE_FLOOR).sqrt()


class SpeakerEncoder(nn.Module):
    """Mel frames or audio -> speaker vector."""

    def __init__(self, config: SpeakerEncoderConfig) -> None:
        super().__init__()
        self.config = config
        first, *widths, last = config.channels
        _, *kernels, last_kernel = config.kernel_sizes
        _, *dilations, last_dilation = config.dilations
        self.blocks = nn.ModuleList([ConvReLU(config.mel_dim, first, config.kernel_sizes[0], config.dilations[0])])
        width = first
        for channels, kernel, dilation in zip(widths, kernels, dilations, strict=True):
            self.blocks.append(SERes2NetBlock(width, channels, kernel, dilation, config))
            width = channels
        self.mfa = ConvReLU(sum(widths), last, last_kernel, last_dilation)
        self.asp = AttentivePooling(last, config.attention_channels)
        self.fc = ReflectedConv(2 * last, config.enc_dim)

    def forward(self, mel: Tensor, ends: Ends | None = None) -> Tensor:
        """Vectors [B, enc_dim] of log mel frames `mel` [B, T, M], up to the `ends` of each row."""
        first, *blocks = self.blocks
        x = first(mel.transpose(1, 2), ends)
        outputs = []
        for block in blocks:
            x = block(x, ends)
            outputs.append(x)
        return self.fc(self.asp(self.mfa(torch.cat(outputs, dim=1), ends), ends)).squeeze(2)

    def embed(self, wav: Tensor) -> Tensor:
        """Vector [enc_dim] of mono `wav` [samples] float at the configured sample rate.

        Raises RowError `short_reference` below `config.min_samples` (53 ms for the released sizes).
        """
        return self.embed_all([wav])[0]

    def embed_all(self, wavs: Sequence[Tensor]) -> Tensor:
        """As `embed`, vectors [B, enc_dim] of several clips in one pass. It may round otherwise."""
        config, weight = self.config, self.fc.weight
        for wav in wavs:
            self.check(wav)
        mels = [log_mel(wav.to(weight.device), config.mel_dim, config.sample_rate_hz).to(weight.dtype) for wav in wavs]
        lengths = [len(mel) for mel in mels]
        ends = None if len(set(lengths)) == 1 else Ends(ids_on(weight.device, lengths), max(lengths))
        return self(pad_sequence(mels, batch_first=True), ends)

    def check(self, wav: Tensor) -> None:
        """Raise what `embed` would."""
        if wav.dim() != 1:
            raise ValueError(f"wav must be mono [samples], got {list(wav.shape)}")
        got, need = wav.shape[0], self.config.min_samples
        if got < need:
            raise RowError("short_reference", f"the reference audio has {got} samples, a speaker vector needs {need}")
