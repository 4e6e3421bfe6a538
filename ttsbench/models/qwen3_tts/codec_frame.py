"""One codec frame of many streams, as few and as dense kernels as it takes: the step that runs in a captured graph.

Equal to `StreamingCodec.step` with one frame, whose slots it shares: a stream may be primed there and go on here. What
differs is only how it is computed. Activations are [B, n, C], channels last. A convolution reads its past where the
tails lie, and its Snake is applied by the layer before it, to the sums that are still in registers. Linear maps that
follow each other are one (`codec_packed.py`). The inputs of all convolutions stay where they are until the end of the
frame; then one kernel moves every tail on, when nothing reads them any more.

No call waits for the device or allocates by data. Slots of one call may repeat only where nothing is to be kept: rows
that pad a graph share a slot of their own.

Shapes: B rows, R rows at most, Q codebooks, n positions, C channels, S slots, D width, H heads, E head width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.kernels.causal_conv import SnakeWeights, causal_conv
from ttsbench.kernels.codebook_sum import codebook_sum
from ttsbench.kernels.dwconv_norm import dwconv_norm
from ttsbench.kernels.output_conv import output_conv
from ttsbench.kernels.residual_unit import fused, residual_unit
from ttsbench.kernels.ring_attention import ring_attention
from ttsbench.kernels.rms_norm import add_rms_norm
from ttsbench.kernels.shift_tails import TailPlan, TailSite, shift_tails
from ttsbench.kernels.swiglu import silu_mul
from ttsbench.models.qwen3_tts.codec_config import CodecDecoderConfig
from ttsbench.models.qwen3_tts.codec_packed import BlockWeights, LayerWeights, PackedDecoder, StageWeights, UnitWeights
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec


class FrameCodec:
    """Built once the decoder's weights are final. Takes memory for the inputs of `max_rows` rows (3.2 MB a row)."""

    def __init__(self, stream: StreamingCodec, max_rows: int | None = None) -> None:
        """`max_rows` bounds B; by default a row for every slot."""
        decoder = stream.decoder
        config = decoder.config
        self.stream = stream
        self.max_rows = stream.num_slots if max_rows is None else max_rows
        self.weights = PackedDecoder(decoder)
        lengths = positions_per_frame(config)
        sites = [TailSite(c, n, tail) for (c, tail), n in zip(decoder.sites, lengths, strict=True)]
        self._plan = TailPlan(sites, stream.num_slots, self.max_rows, decoder.device)
        self._inputs = torch.zeros(self._plan.input_size, dtype=decoder.dtype, device=decoder.device)
        self._tails = [self._plan.tails(stream.tail_storage, site) for site in range(len(sites))]
        exponents = torch.arange(0, config.head_dim, 2, device=decoder.device, dtype=torch.float32) / config.head_dim
        self._frequencies = config.rope_theta**-exponents
        self._ones = torch.ones(self.max_rows, dtype=torch.int64, device=decoder.device)

    def __call__(self, codes: Tensor, slots: Tensor) -> Tensor:
        """PCM [B, hop] of the next frame `codes` [B, Q] int64 of the streams in `slots` [B] int64, which advance.

        Float32, or float64 from a float64 decoder. Codes are not checked: one past the end of its book reads the next.
        """
        if len(slots) > self.max_rows or codes.shape[:1] != slots.shape:
            raise ValueError(f"need one slot per row and at most {self.max_rows} rows, got {list(codes.shape)}")
        x = self._transform(self._embed(codes, slots), slots)
        for site, stage in enumerate(self.weights.stages, start=1):
            x = self._stage(stage, x, slots, site)
        pcm = self._synthesise(slots, site=1 + len(self.weights.stages))
        shift_tails(self._inputs, self.stream.tail_storage, slots, self._plan)
        self.stream.position.index_add_(0, slots, self._ones[: len(slots)])
        return pcm

    def _input(self, site: int, rows: int) -> Tensor:
        """Where the inputs [rows, n, C] of a convolution lie: its producer writes there."""
        return self._plan.inputs(self._inputs, site, rows)

    def _embed(self, codes: Tensor, slots: Tensor) -> Tensor:
        """The transformer's input [B, D]."""
        vectors, conv = self._input(0, len(slots)), self.weights.pre_conv
        codebook_sum(codes, self.weights.table, vectors[:, 0])
        x = vectors.new_empty(len(slots), 1, conv.width)
        causal_conv(vectors, self._tails[0], slots, conv, plain=x)
        return x[:, 0]

    def _transform(self, x: Tensor, slots: Tensor) -> Tensor:
        """The transformer's normed output [B, D] for its input [B, D]."""
        layers, eps = self.weights.layers, self.stream.decoder.config.rms_norm_eps
        next_norms = [*(layer.input_norm for layer in layers[1:]), self.weights.final_norm]
        x, residual = add_rms_norm(x, None, layers[0].input_norm, eps)
        for number, (layer, next_norm) in enumerate(zip(layers, next_norms, strict=True)):
            x = F.linear(self._attend(number, layer, x, slots), layer.output)
            x, residual = add_rms_norm(x, residual, layer.middle_norm, eps)
            x = F.linear(silu_mul(F.linear(x, layer.gate_up)), layer.down)
            x, residual = add_rms_norm(x, residual, next_norm, eps)
        return x

    def _attend(self, number: int, layer: LayerWeights, x: Tensor, slots: Tensor) -> Tensor:
        stream = self.stream
        rings, window = (stream.keys[number], stream.values[number]), stream.decoder.config.window
        return ring_attention(F.linear(x, layer.qkv), *rings, slots, stream.position, self._frequencies, window)

    def _stage(self, stage: StageWeights, x: Tensor, slots: Tensor, site: int) -> Tensor:
        """`x` [B, D] or [B, n, C] to [B, r n, C]; the last stage's output is the input of the convolution after it."""
        wide = self._input(site, len(slots))
        x = x.reshape(-1, x.shape[-1])
        torch.addmm(stage.upsample.bias, x, stage.upsample.weight, out=wide.view(len(x), -1))
        y = dwconv_norm(wide, self._tails[site], slots, stage.convolve).flatten(0, 1)
        y = F.gelu(torch.addmm(stage.widen.bias, y, stage.widen.weight))
        y = torch.addmm(stage.narrow.bias, y, stage.narrow.weight).view_as(wide)
        out = self._input(site + 1, len(slots)) if stage is self.weights.stages[-1] else torch.empty_like(wide)
        return torch.add(wide, y, out=out)

    def _synthesise(self, slots: Tensor, site: int) -> Tensor:
        """The convolutions from `site` on, whose inputs are in place: PCM [B, hop]."""
        rows, weights = len(slots), self.weights
        snakes = [*(block.before for block in weights.blocks), weights.last_snake]
        x, active = self._input(site, rows), self._input(site + 1, rows)
        causal_conv(x, self._tails[site], slots, weights.first, activation=snakes[0], active=active)
        site += 1
        for block, next_snake in zip(weights.blocks, snakes[1:], strict=True):
            site = self._block(block, slots, site, next_snake)
        x = self._input(site, rows)
        return output_conv(x, self._tails[site], slots, weights.last_weight, weights.last_bias)

    def _block(self, block: BlockWeights, slots: Tensor, site: int, next_snake: SnakeWeights) -> int:
        """Upsampler at `site` and residual units; the next input is put in its place. Returns the site after it."""
        rows = len(slots)
        x, active, conv = self._input(site, rows), self._input(site + 1, rows), block.upsample
        residual, phases = torch.empty_like(active), (*x.shape[:2], conv.width)
        causal_conv(
            x, self._tails[site], slots, conv,
            activation=block.after, plain=residual.view(phases), active=active.view(phases),
        )  # fmt: skip
        snakes = [*(unit.before for unit in block.units[1:]), next_snake]
        for number, (unit, snake) in enumerate(zip(block.units, snakes, strict=True)):
            site += 1
            plain = torch.empty_like(residual) if number + 1 < len(snakes) else None
            self._unit(unit, slots, site, residual, snake, plain)
            if plain is not None:
                residual = plain
        return site + 1

    def _unit(
        self, unit: UnitWeights, slots: Tensor, site: int, residual: Tensor, snake: SnakeWeights, plain: Tensor | None
    ) -> None:
        """The unit whose input is at `site`: its sum to `plain`, if one follows, and its Snake to the next site."""
        rows = len(slots)
        x, active = self._input(site, rows), self._input(site + 1, rows)
        if fused(rows * x.shape[1], x.shape[2]):
            residual_unit(
                x, self._tails[site], slots, unit.dilated, unit.between, unit.pointwise, residual, snake, plain, active
            )
        else:
            middle = torch.empty_like(active)
            causal_conv(x, self._tails[site], slots, unit.dilated, activation=unit.between, active=middle)
            causal_conv(middle, None, slots, unit.pointwise, residual, snake, plain, active)


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
