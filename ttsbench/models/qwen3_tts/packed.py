"""Talker and code predictor as an engine runs them: the modules' weights, laid out for few, large operations.

A layer is four products and attention: q, k and v come out of one matrix, gate and up out of another, and what stands
between two products belongs to one of them (`kernels/fused_linear`). Everything that embeds a code is precomputed: a
frame's embeddings come from one stacked table, and the code predictor's input rows are projected once per code rather
than once per draw. The modules' own weights become views of the packed ones, so nothing is held twice but the projected
rows.

Rows are packed: a step's rows [N, D] stand side by side whatever they belong to, and an `Attend` knows where each
stands. Shapes: N rows, D width, F inner width, H query heads, K key-value heads, E head width, Q codebooks, V talker
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from ttsbench.kernels.attention import Heads
from ttsbench.kernels.fused_linear import Normed, gated_linear, linear, residual_linear
from ttsbench.kernels.rms_norm import add_rms_norm
from ttsbench.models.qwen3_tts.talker import Talker
from ttsbench.models.qwen3_tts.transformer import DecoderLayer, DecoderStack, rotary_angles


class Attend(Protocol):
    """Stores keys and values of layer `layer` and returns the attention output [N, H * E] of packed rows `qkv`
    [N, (H + 2 K) * E], norms and rotation included.
    """

    def __call__(self, layer: int, qkv: Tensor, heads: Heads) -> Tensor: ...


@dataclass(frozen=True)
class Layer:
    """One pre-norm decoder layer; a weight is [outputs, inputs]."""

    input_norm: Tensor
    """[D]"""
    qkv: Tensor
    """[(H + 2 K) * E, D]: queries, keys, values."""
    heads: Heads
    o: Tensor
    """[D, H * E]"""
    post_norm: Tensor
    """[D]"""
    gate_up: Tensor
    """[2 F, D]: gate, up."""
    down: Tensor
    """[D, F]"""


class PackedStack:
    """The layers and final norm of a stack, with rotary tables for positions below `max_positions`."""

    def __init__(self, stack: DecoderStack, max_positions: int) -> None:
        self.config = stack.config
        weight = stack.norm.weight
        positions = torch.arange(max_positions, device=weight.device)
        tables = rotary_angles(positions, self.config.head_dim, self.config.rope_theta, weight.dtype)
        half = self.config.head_dim // 2
        self.cos, self.sin = (table[:, 0, :half].contiguous() for table in tables)
        self.layers = [self._pack(layer) for layer in stack.layers if isinstance(layer, DecoderLayer)]
        self.norm = weight.detach()

    def _pack(self, layer: DecoderLayer) -> Layer:
        config, attention, mlp = self.config, layer.self_attn, layer.mlp
        norm = torch.cat(
            (
                attention.q_norm.weight.expand(config.num_heads, -1),
                attention.k_norm.weight.expand(config.num_kv_heads, -1),
            )
        )
        return Layer(
            input_norm=layer.input_layernorm.weight.detach(),
            qkv=join_weights((attention.q_proj, attention.k_proj, attention.v_proj)),
            heads=Heads(
                config.num_heads,
                config.num_kv_heads,
                config.head_dim,
                config.rms_norm_eps,
                norm.detach(),
                self.cos,
                self.sin,
            ),
            o=attention.o_proj.weight.detach(),
            post_norm=layer.post_attention_layernorm.weight.detach(),
            gate_up=join_weights((mlp.gate_proj, mlp.up_proj)),
            down=mlp.down_proj.weight.detach(),
        )

    def run(self, x: Tensor, attend: Attend, normed: Normed | None = None) -> Normed:
        """Hidden states after the final norm of input rows `x` [N, D]; `normed` is their first norm, if it is there."""
        eps, residual = self.config.rms_norm_eps, x
        if normed is None:
            normed = Normed(add_rms_norm(x, None, self.layers[0].input_norm, eps)[0])
        norms = [*(layer.input_norm for layer in self.layers[1:]), self.norm]
        for index, (layer, next_norm) in enumerate(zip(self.layers, norms, strict=True)):
            attended = attend(index, linear(normed, layer.qkv), layer.heads)
            normed, residual = residual_linear(attended, layer.o, residual, layer.post_norm, eps)
            gated = gated_linear(normed, layer.gate_up)
            normed, residual = residual_linear(gated, layer.down, residual, next_norm, eps)
        return normed


class PackedTalker:
    """A talker, its head and its code predictor. Build it once, after the weights are where they stay."""

    @torch.no_grad()
    def __init__(self, talker: Talker, max_positions: int) -> None:
        predictor = talker.code_predictor
        config = predictor.config
        self.num_codebooks = config.num_codebooks
        self.codebook_size = config.codebook_size
        self.talker = PackedStack(talker.model, max_positions)
        self.predictor = PackedStack(predictor.model, self.num_codebooks)
        self.head = talker.codec_head.weight.detach()
        self.lm_heads = [head.weight.detach() for head in predictor.lm_head if isinstance(head, nn.Linear)]
        self.projection = predictor.small_to_mtp_projection
        tables = (talker.model.codec_embedding, *predictor.model.codec_embedding)
        self.frame_table = join_weights(tables)
        """[V + (Q - 1) * codebook size, D]"""
        sizes = [0, config.talker_vocab_size] + [config.codebook_size] * (self.num_codebooks - 2)
        self.frame_offsets = torch.tensor(sizes).cumsum(0).to(self.head.device)
        self.code_rows = [self.projection(table.weight).detach() for table in tables[:-1]]
        """Predictor input rows per codebook 0..Q-2: [V, D'] and [codebook size, D']; the last is never fed back."""
        self.code_squares = [rows.float().square().sum(1) for rows in self.code_rows]
        """The sum of squares of each of these rows, float32: what a norm has to know of them."""

    def project(self, hidden: Normed, out: Tensor) -> None:
        """Input rows of the code predictor from the talker's hidden states, into `out` [N, D']."""
        if isinstance(self.projection, nn.Linear):
            linear(hidden, self.projection.weight.detach(), self.projection.bias.detach(), out)
        else:
            out.copy_(hidden.finished())

    @property
    def device(self) -> torch.device:
        return self.head.device

    @property
    def dtype(self) -> torch.dtype:
        return self.head.dtype


def join_weights(modules: Sequence[nn.Module]) -> Tensor:
    """The modules' weights [n_i, D] in one tensor, of which they become views."""
    weights = [module.get_parameter("weight") for module in modules]
    joined = torch.cat([weight.detach() for weight in weights])
    for weight, part in zip(weights, torch.split(joined, [len(weight) for weight in weights]), strict=True):
        weight.data = part
    return joined
