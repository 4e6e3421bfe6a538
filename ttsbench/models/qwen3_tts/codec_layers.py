"""The causal layers of the codec decoder, with the names of the published file and one `forward` for whole and stream.

Convolutions run on [B, C, n] and take the part of their past from a `Past`; nothing here keeps state. What follows from
the weights alone (exponentials of Snake, codebook rows) is derived once by `finalize` and not per call.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ttsbench.models.qwen3_tts.codec_past import Past

SHORT = 64
"""Up to this many positions a convolution is one matrix product over its windows. A streamed frame has 1 to 32 of them
in wide layers, where torch's CPU convolution took up to six times as long; beyond it the copied windows cost more."""


class Derived(nn.Module):
    """A module with tensors computed from its weights, once, by `derive`.

    Loading weights drops them, so a stale value cannot survive; using the module before `derive` is a RuntimeError.
    They are buffers outside the state dict: they follow `.to()`, and a checkpoint neither has nor needs them.
    """

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names
        for name in names:
            self.register_buffer(name, None, persistent=False)
        self.register_load_state_dict_post_hook(_drop_derived)  # type: ignore[no-untyped-call]

    def derive(self) -> None:
        """Compute every derived tensor; each kind of module has its own way."""
        raise NotImplementedError(f"{type(self).__name__} does not say how its tensors are derived")

    def derived(self, name: str) -> Tensor:
        value: Tensor | None = self._buffers[name]
        if value is None:
            raise RuntimeError(f"{type(self).__name__}.{name} is not computed: call finalize() after loading weights")
        return value


def _drop_derived(module: nn.Module, _: object) -> None:
    assert isinstance(module, Derived)
    for name in module._names:
        setattr(module, name, None)


def finalize(root: nn.Module) -> None:
    """Compute every derived tensor under `root`. Call it after loading weights and before lowering their precision."""
    with torch.no_grad():
        for module in root.modules():
            if isinstance(module, Derived):
                module.derive()


class Snake(Derived):
    """y = x + sin(a x)^2 / (b + 1e-9) on [B, C, n], a and b stored per channel as logarithms."""

    def __init__(self, channels: int) -> None:
        super().__init__("frequency", "gain")
        self.alpha = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def derive(self) -> None:
        self.frequency = self.alpha.exp().unsqueeze(1)
        self.gain = (self.beta.exp() + 1e-9).reciprocal().unsqueeze(1)

    def forward(self, x: Tensor) -> Tensor:
        wave = (x * self.derived("frequency")).sin_()
        return torch.addcmul(x, wave.square_(), self.derived("gain"))


class CausalConv(nn.Module):
    """Convolution whose output i sees inputs up to i: `tail` inputs come from the past."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel, dilation=dilation, groups=groups)
        self.channels = in_channels
        self.dilation = dilation
        self.dense = groups == 1
        self.tail = (kernel - 1) * dilation
        self.site = -1  # numbered by `number_sites`

    def forward(self, x: Tensor, past: Past) -> Tensor:
        if not self.tail:
            return self.conv(x)
        short = x.shape[2] <= SHORT
        x = past.extend(self.site, x, self.tail)
        return self._as_product(x) if short and self.dense else self.conv(x)

    def _as_product(self, x: Tensor) -> Tensor:
        windows = x.unfold(2, self.tail + 1, 1)[..., :: self.dilation]  # [B, C, n, kernel]
        rows = windows.transpose(1, 2).flatten(2)
        return F.linear(rows, self.conv.weight.flatten(1), self.conv.bias).transpose(1, 2)


class CausalUpsampler(nn.Module):
    """Transposed convolution by `stride` r: out[i r + j] = W_j x[i] + W_(j+r) x[i-1] + ..., nothing of later inputs.

    Computed as that formula says, one matrix product for all taps: for the few positions of a streamed frame several
    times faster than torch's transposed convolution on a CPU, for many about the same.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int) -> None:
        super().__init__()
        if kernel % stride:
            raise ValueError(f"the kernel must be a multiple of the stride, got {kernel} and {stride}")
        self.conv = nn.ConvTranspose1d(in_channels, out_channels, kernel, stride)
        self.channels = in_channels
        self.stride = stride
        self.tail = kernel // stride - 1
        self.site = -1

    def forward(self, x: Tensor, past: Past) -> Tensor:
        n, tail = x.shape[2], self.tail
        if tail:
            x = past.extend(self.site, x, tail)
        weight, bias = self.conv.weight, self.conv.bias
        assert bias is not None  # every upsampler of the file has one
        taps = x.transpose(1, 2) @ weight.flatten(1)
        taps = taps.view(*taps.shape[:2], weight.shape[1], tail + 1, self.stride)
        y = taps[:, tail:, :, 0]  # [B, n, C, stride]
        for age in range(1, tail + 1):
            y = y + taps[:, tail - age : tail - age + n, :, age]
        return (y.transpose(1, 2) + bias[:, None, None]).flatten(2)


Site = CausalConv | CausalUpsampler


def number_sites(root: nn.Module) -> Iterator[Site]:
    """Number the convolutions under `root` that need a past, in module order, and yield them."""
    sites = (m for m in root.modules() if isinstance(m, CausalConv | CausalUpsampler) and m.tail)
    for number, site in enumerate(sites):
        site.site = number
        yield site


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution, LayerNorm, MLP with GELU, scaled by gamma, plus the input; on [B, C, n]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(width, width, 7, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.pwconv2 = nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: Tensor, past: Past) -> Tensor:
        y = self.norm(self.dwconv(x, past).transpose(1, 2))
        y = self.pwconv2(F.gelu(self.pwconv1(y))) * self.gamma
        return x + y.transpose(1, 2)


class ResidualUnit(nn.Module):
    """Snake, dilated convolution k7, Snake, convolution k1, plus the input."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.act1 = Snake(channels)
        self.conv1 = CausalConv(channels, channels, 7, dilation)
        self.act2 = Snake(channels)
        self.conv2 = CausalConv(channels, channels, 1)

    def forward(self, x: Tensor, past: Past) -> Tensor:
        y = self.conv1(self.act1(x), past)
        return x + self.conv2(self.act2(y), past)


class UpsampleBlock(nn.Module):
    """Snake, transposed convolution by `stride` to half the channels, three residual units."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        upsampler = CausalUpsampler(channels, channels // 2, 2 * stride, stride)
        units = (ResidualUnit(channels // 2, dilation) for dilation in (1, 3, 9))
        self.block = nn.ModuleList([Snake(channels), upsampler, *units])

    def forward(self, x: Tensor, past: Past) -> Tensor:
        snake, *causal = self.block
        x = snake(x)
        for layer in causal:
            x = layer(x, past)
        return x
