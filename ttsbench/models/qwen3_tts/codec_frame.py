"""One codec frame of many streams, as few and as dense kernels as it takes: the step that runs in a captured graph.

Equal to `StreamingCodec.step` with one frame, whose slots it shares: a stream may be primed there and go on here. What
differs is only how it is computed. Activations are [n, B, C]: channels last, and time first, so that a step back in
time is the same number of rows for every stream. A convolution's past stands before its frame, where one kernel puts
all tails first of all; its Snake is applied by the layer before it, to the sums that are still in registers. Linear
maps that follow each other are one (`codec_packed.py`). The inputs of all convolutions stay where they are until the
end of the frame; then one kernel keeps their ends as the new tails.

No call waits for the device or allocates by data. Slots of one call may repeat only where nothing is to be kept: rows
that pad a graph share a slot of their own.

Shapes: B rows, R rows at most, Q codebooks, n positions, C channels, S slots, D width, H heads, E head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.kernels.causal_conv import Gelu, SnakeWeights, causal_conv
from ttsbench.kernels.codebook_sum import codebook_sum
from ttsbench.kernels.dwconv_norm import dwconv_norm
from ttsbench.kernels.fused_linear import Normed, gated_linear, linear, residual_linear
from ttsbench.kernels.output_conv import output_conv
from ttsbench.kernels.ring_attention import ring_attention
from ttsbench.kernels.rms_norm import add_rms_norm
from ttsbench.kernels.shift_tails import TailPlan, TailSite, place_tails, shift_tails
from ttsbench.models.qwen3_tts.codec_decoder import positions_per_frame
from ttsbench.models.qwen3_tts.codec_packed import BlockWeights, PackedDecoder, StageWeights, UnitWeights
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec


class FrameCodec:
    """Built once the decoder's weights are final. Takes memory for the inputs of `max_rows` rows (3.5 MB a row)."""

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
        exponents = torch.arange(0, config.head_dim, 2, device=decoder.device, dtype=torch.float32) / config.head_dim
        self._frequencies = config.rope_theta**-exponents

    def __call__(self, codes: Tensor, slots: Tensor) -> Tensor:
        """PCM [B, hop] of the next frame `codes` [B, Q] int64 of the streams in `slots` [B] int64, which advance.

        Float32, or float64 from a float64 decoder. A code past the end of its book stands for the book's last.
        """
        if len(slots) > self.max_rows or codes.shape[:1] != slots.shape:
            raise ValueError(f"need one slot per row and at most {self.max_rows} rows, got {list(codes.shape)}")
        rows, tails = len(slots), self.stream.tail_storage
        place_tails(self._inputs, tails, slots, self._plan)
        x = self._transform(self._embed(codes), slots).unsqueeze(0)
        for site, stage in enumerate(self.weights.stages, start=1):
            x = self._stage(stage, x, rows, site)
        pcm = self._synthesise(rows, site=1 + len(self.weights.stages))
        shift_tails(self._inputs, tails, slots, self._plan, self.stream.position)
        return pcm

    def _input(self, site: int, rows: int) -> Tensor:
        """Past and frame [T + n, rows, C] of the convolution at `site`."""
        return self._plan.inputs(self._inputs, site, rows)

    def _frame(self, site: int, rows: int) -> Tensor:
        """The frame [n, rows, C] alone: its producer writes there."""
        return self._input(site, rows)[self._plan.sites[site].tail :]

    def _embed(self, codes: Tensor) -> Tensor:
        """The transformer's input [B, D]."""
        rows, conv = len(codes), self.weights.pre_conv
        frame = self._frame(0, rows)
        codebook_sum(codes, self.weights.table, frame[0])
        x = frame.new_empty(1, rows, conv.width)
        causal_conv(self._input(0, rows), conv, plain=x)
        return x[0]

    def _transform(self, x: Tensor, slots: Tensor) -> Tensor:
        """The transformer's normed output [B, D] for its input [B, D]."""
        layers, eps = self.weights.layers, self.stream.decoder.config.rms_norm_eps
        next_norms = [*(layer.input_norm for layer in layers[1:]), self.weights.final_norm]
        first, residual = add_rms_norm(x, None, layers[0].input_norm, eps)
        normed = Normed(first)
        for number, (layer, next_norm) in enumerate(zip(layers, next_norms, strict=True)):
            x = self._attend(number, linear(normed, layer.qkv), slots)
            normed, residual = residual_linear(x, layer.output, residual, layer.middle_norm, eps)
            x = gated_linear(normed, layer.gate_up)
            normed, residual = residual_linear(x, layer.down, residual, next_norm, eps)
        return add_rms_norm(residual, None, self.weights.final_norm, eps)[0]

    def _attend(self, number: int, qkv: Tensor, slots: Tensor) -> Tensor:
        stream = self.stream
        rings, window = (stream.keys[number], stream.values[number]), stream.decoder.config.window
        return ring_attention(qkv, *rings, slots, stream.position, self._frequencies, window)

    def _stage(self, stage: StageWeights, x: Tensor, rows: int, site: int) -> Tensor:
        """`x` [n, B, D] to [r n, B, C]; the last stage's output is the input of the convolution after it."""
        wide = self._frame(site, rows)
        causal_conv(x, stage.upsample, plain=wide)
        y = dwconv_norm(self._input(site, rows), stage.convolve)
        inner = y.new_empty(*y.shape[:2], stage.widen.width)
        causal_conv(y, stage.widen, activation=Gelu(), active=inner)
        out = self._frame(site + 1, rows) if stage is self.weights.stages[-1] else torch.empty_like(wide)
        causal_conv(inner, stage.narrow, residual=wide, plain=out)
        return out

    def _synthesise(self, rows: int, site: int) -> Tensor:
        """The convolutions from `site` on, whose inputs are in place: PCM [B, hop]."""
        weights = self.weights
        snakes = [*(block.before for block in weights.blocks), weights.last_snake]
        active = self._frame(site + 1, rows)
        causal_conv(self._input(site, rows), weights.first, activation=snakes[0], active=active)
        site += 1
        for block, next_snake in zip(weights.blocks, snakes[1:], strict=True):
            site = self._block(block, rows, site, next_snake)
        return output_conv(self._input(site, rows), weights.last_weight, weights.last_bias)

    def _block(self, block: BlockWeights, rows: int, site: int, next_snake: SnakeWeights) -> int:
        """Upsampler at `site` and residual units; the next input is put in its place. Returns the site after it."""
        active = self._frame(site + 1, rows)
        residual = torch.empty_like(active)
        x = self._input(site, rows)
        causal_conv(x, block.upsample, activation=block.after, plain=residual, active=active)
        snakes = [*(unit.before for unit in block.units[1:]), next_snake]
        for number, (unit, snake) in enumerate(zip(block.units, snakes, strict=True)):
            site += 1
            plain = torch.empty_like(residual) if number + 1 < len(snakes) else None
            self._unit(unit, rows, site, residual, snake, plain)
            if plain is not None:
                residual = plain
        return site + 1

    def _unit(
        self, unit: UnitWeights, rows: int, site: int, residual: Tensor, snake: SnakeWeights, plain: Tensor | None
    ) -> None:
        """The unit whose input is at `site`: its sum to `plain`, if one follows, and its Snake to the next site."""
        x, active = self._input(site, rows), self._frame(site + 1, rows)
        middle = torch.empty_like(active)
        causal_conv(x, unit.dilated, activation=unit.between, active=middle)
        causal_conv(middle, unit.pointwise, residual, snake, plain, active)
