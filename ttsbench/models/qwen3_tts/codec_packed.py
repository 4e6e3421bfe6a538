"""The codec decoder's weights as one-frame kernels read them: packed, channels last, linear maps in a row folded.

Computed in float32 (float64 stays float64) and rounded once, to the decoder's dtype. Folded are: the output projections
of the codebooks into their rows; the transformer's input projection into the convolution before it and its output
projection into the upsampler behind it; LayerScale and gamma into the projection that they scale.

Shapes: C channels, N outputs per position, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from ttsbench.kernels.causal_conv import ConvWeights, SnakeWeights
from ttsbench.kernels.causal_conv.packed import TICKETS
from ttsbench.kernels.dwconv_norm import DepthwiseNorm
from ttsbench.models.qwen3_tts.codec_config import NUM_SEMANTIC
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.codec_layers import (
    CausalConv,
    CausalUpsampler,
    ConvNeXtBlock,
    ResidualUnit,
    Snake,
    UpsampleBlock,
)
from ttsbench.models.qwen3_tts.codec_quantizer import SplitDequantizer
from ttsbench.models.qwen3_tts.codec_transformer import Layer
from ttsbench.models.qwen3_tts.transformer import SwiGLU

Kind = TypeVar("Kind", bound=nn.Module)


@dataclass(frozen=True)
class LayerWeights:
    """One transformer layer. Matrices [out, in]."""

    input_norm: Tensor
    qkv: Tensor
    output: Tensor
    middle_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True)
class StageWeights:
    """Upsampling by a matrix, then a ConvNeXt block. Matrices are convolutions of one tap."""

    upsample: ConvWeights
    convolve: DepthwiseNorm
    widen: ConvWeights
    narrow: ConvWeights


@dataclass(frozen=True)
class UnitWeights:
    """Snake, dilated convolution, Snake, 1x1 convolution."""

    before: SnakeWeights
    dilated: ConvWeights
    between: SnakeWeights
    pointwise: ConvWeights


@dataclass(frozen=True)
class BlockWeights:
    """Snake, upsampler, residual units. The first unit's Snake lies behind the upsampler, repeated for its phases."""

    before: SnakeWeights
    upsample: ConvWeights
    after: SnakeWeights
    units: tuple[UnitWeights, ...]


def known(module: nn.Module, kind: type[Kind]) -> Kind:
    """`module`, which a list of modules holds, as what it is."""
    assert isinstance(module, kind)
    return module


class PackedDecoder:
    """All weights of a finalised decoder."""

    def __init__(self, decoder: CodecDecoder) -> None:
        self._dtype = decoder.dtype
        self._wide = torch.promote_types(decoder.dtype, torch.float32)
        transformer = decoder.pre_transformer
        first, *blocks, snake, last = decoder.decoder
        upsamplers = [known(stage, nn.ModuleList)[0] for stage in decoder.upsample]
        convnexts = [known(stage, nn.ModuleList)[1] for stage in decoder.upsample]
        with torch.no_grad():
            self.table = self._table(decoder.quantizer)
            self.pre_conv = self._folded_pre_conv(decoder.pre_conv, transformer.input_proj)
            self.layers = [self._layer(known(layer, Layer)) for layer in transformer.layers]
            self.final_norm = transformer.norm.weight.detach()
            matrices = [self._upsampling_matrix(known(module, CausalUpsampler)) for module in upsamplers]
            matrices[0] = self._behind(transformer.output_proj, *matrices[0])
            self.stages = [
                self._stage(matrix, known(block, ConvNeXtBlock))
                for matrix, block in zip(matrices, convnexts, strict=True)
            ]
            self.first = self._conv(known(first, CausalConv))
            self.blocks = [self._block(known(block, UpsampleBlock)) for block in blocks]
            self.last_snake = self._snake(known(snake, Snake))
            conv = known(last, CausalConv).conv
            self.last_weight = self._w(conv.weight)[0].T.contiguous()  # [taps, C]
            self.last_bias = self._w(conv.get_parameter("bias"))

    def _w(self, tensor: Tensor) -> Tensor:
        return tensor.detach().to(self._wide)

    def _table(self, quantizer: SplitDequantizer) -> Tensor:
        """Projected rows of all codebooks [Q * N, D]."""
        rows = self._w(quantizer.derived("table"))
        semantic, acoustic = rows.tensor_split([NUM_SEMANTIC * quantizer.size])
        first, rest = (self._w(g.output_proj.weight)[..., 0] for g in (quantizer.rvq_first, quantizer.rvq_rest))
        return torch.cat((semantic @ first.T, acoustic @ rest.T))

    def _packed(self, weight: Tensor, bias: Tensor, taps: int, dilation: int = 1) -> ConvWeights:
        tickets = torch.zeros(TICKETS, dtype=torch.int32, device=weight.device)
        return ConvWeights(weight.to(self._dtype).contiguous(), bias.contiguous(), tickets, taps, dilation)

    def _conv(self, module: CausalConv) -> ConvWeights:
        weight = self._w(module.conv.weight)  # [N, C, taps]
        bias = self._w(module.conv.get_parameter("bias"))
        return self._packed(weight.permute(2, 1, 0).flatten(0, 1), bias, weight.shape[2], module.dilation)

    def _folded_pre_conv(self, module: CausalConv, proj: nn.Linear) -> ConvWeights:
        weight, matrix = self._w(module.conv.weight), self._w(proj.weight)
        product = weight.permute(2, 1, 0).flatten(0, 1) @ matrix.T
        bias = self._w(module.conv.get_parameter("bias")) @ matrix.T + self._w(proj.bias)
        return self._packed(product, bias, weight.shape[2])

    def _upsampler(self, module: CausalUpsampler) -> ConvWeights:
        """Column (j, o) is phase j of output channel o; tap t, oldest first, is weight[:, :, (taps - 1 - t) r + j]."""
        weight = self._w(module.conv.weight)  # [C, out, kernel]
        taps, stride = module.tail + 1, module.stride
        weight = weight.view(*weight.shape[:2], taps, stride).flip(2).permute(2, 0, 3, 1).flatten(2).flatten(0, 1)
        return self._packed(weight, self._w(module.conv.get_parameter("bias")).repeat(stride), taps)

    def _snake(self, module: Snake, repeats: int = 1) -> SnakeWeights:
        vectors = (self._w(module.derived(name)).flatten().repeat(repeats) for name in ("frequency", "gain"))
        return SnakeWeights(*vectors)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.to(self._dtype).contiguous()

    def _linear(self, weight: Tensor, bias: Tensor) -> ConvWeights:
        """`weight` [out, in] in any layout."""
        return self._packed(weight.T, bias, taps=1)

    def _layer(self, layer: Layer) -> LayerWeights:
        attention, mlp = layer.self_attn, layer.mlp
        assert isinstance(mlp, SwiGLU)
        qkv = torch.cat([self._w(p.weight) for p in (attention.q_proj, attention.k_proj, attention.v_proj)])
        output = self._w(attention.o_proj.weight) * self._w(layer.self_attn_layer_scale.scale)[:, None]
        down = self._w(mlp.down_proj.weight) * self._w(layer.mlp_layer_scale.scale)[:, None]
        gate_up = torch.cat([self._w(p.weight) for p in (mlp.gate_proj, mlp.up_proj)])
        norms = (layer.input_layernorm.get_parameter("weight"), layer.post_attention_layernorm.get_parameter("weight"))
        return LayerWeights(
            norms[0].detach(), self._matrix(qkv), self._matrix(output),
            norms[1].detach(), self._matrix(gate_up), self._matrix(down),
        )  # fmt: skip

    def _stage(self, upsample: tuple[Tensor, Tensor], block: ConvNeXtBlock) -> StageWeights:
        conv, norm, gamma = block.dwconv.conv, block.norm, self._w(block.gamma)
        return StageWeights(
            self._linear(*upsample),
            DepthwiseNorm(
                self._w(conv.weight)[:, 0].T.contiguous(), self._w(conv.get_parameter("bias")),
                self._w(norm.weight), self._w(norm.bias), norm.eps,
            ),
            self._linear(self._w(block.pwconv1.weight), self._w(block.pwconv1.bias)),
            self._linear(self._w(block.pwconv2.weight) * gamma[:, None], self._w(block.pwconv2.bias) * gamma),
        )  # fmt: skip

    def _upsampling_matrix(self, module: CausalUpsampler) -> tuple[Tensor, Tensor]:
        """Matrix [r * out, C] and bias of an upsampler whose kernel is its stride: it looks at no past."""
        assert not module.tail
        weight = self._w(module.conv.weight).permute(2, 1, 0).flatten(0, 1)
        return weight, self._w(module.conv.get_parameter("bias")).repeat(module.stride)

    def _behind(self, proj: nn.Linear, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The one linear map that `proj` and the map of `weight` [out, in] and `bias` are together."""
        return weight @ self._w(proj.weight), weight @ self._w(proj.bias) + bias

    def _block(self, module: UpsampleBlock) -> BlockWeights:
        snake, upsampler, *rest = module.block
        units = [known(unit, ResidualUnit) for unit in rest]
        upsampler = known(upsampler, CausalUpsampler)
        return BlockWeights(
            self._snake(known(snake, Snake)),
            self._upsampler(upsampler),
            self._snake(units[0].act1, repeats=upsampler.stride),
            tuple(self._unit(unit) for unit in units),
        )

    def _unit(self, unit: ResidualUnit) -> UnitWeights:
        return UnitWeights(
            self._snake(unit.act1), self._conv(unit.conv1), self._snake(unit.act2), self._conv(unit.conv2)
        )
