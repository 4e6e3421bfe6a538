"""Attention layers of the codec, used by both directions: rotate-half RoPE, a window, learnt scales on both branches.

The decoder's layers have RMSNorm and SwiGLU, the encoder's LayerNorm and a GELU MLP. Their rotary base is not the
talker's. Shapes: B rows, n positions, D width, H heads, K key-value heads, E head width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ttsbench.models.qwen3_tts.codec_config import CodecDecoderConfig, CodecEncoderConfig
from ttsbench.models.qwen3_tts.codec_past import Past
from ttsbench.models.qwen3_tts.transformer import SwiGLU, rotate

Rotation = tuple[Tensor, Tensor]


def rotation(positions: Tensor, head_dim: int, theta: float, dtype: torch.dtype) -> Rotation:
    """cos and sin [B, n, 1, E] of absolute `positions` [B, n].

    Angles are float32 as published. Their cosine is taken in float64 for a float64 model: float32 cosines may differ in
    the last bit with the size of the call, which would hide what the float64 comparison looks for.
    """
    exponents = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32) / head_dim
    angles = positions[..., None].float() * theta**-exponents
    if dtype == torch.float64:
        angles = angles.double()
    angles = torch.cat((angles, angles), dim=-1).unsqueeze(2)
    return angles.cos().to(dtype), angles.sin().to(dtype)


class LayerScale(nn.Module):
    """x + scale * branch, the scale learnt per channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 0.01))

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        return torch.addcmul(x, branch, self.scale)


class Attention(nn.Module):
    """Projections and rotation around what the past makes of them. Heads may be wider together than `width`."""

    def __init__(self, width: int, heads: int, kv_heads: int, head_dim: int, layer: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(width, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, width, bias=False)
        self.head_dim = head_dim
        self.layer = layer

    def forward(self, x: Tensor, turn: Rotation, past: Past) -> Tensor:
        heads = (*x.shape[:2], -1, self.head_dim)
        q = rotate(self.q_proj(x).view(heads), *turn)
        k = rotate(self.k_proj(x).view(heads), *turn)
        v = self.v_proj(x).view(heads)
        return self.o_proj(past.attend(self.layer, q, k, v).flatten(2))


class GeluMLP(nn.Module):
    """fc2(gelu(fc1(x))), no biases."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, inner, bias=False)
        self.fc2 = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class Layer(nn.Module):
    """Norm, attention, scaled residual; norm, MLP, scaled residual; on [B, n, D]."""

    def __init__(self, attention: Attention, mlp: nn.Module, norms: tuple[nn.Module, nn.Module], width: int) -> None:
        super().__init__()
        self.self_attn = attention
        self.mlp = mlp
        self.input_layernorm, self.post_attention_layernorm = norms
        self.self_attn_layer_scale = LayerScale(width)
        self.mlp_layer_scale = LayerScale(width)

    def forward(self, x: Tensor, turn: Rotation, past: Past) -> Tensor:
        x = self.self_attn_layer_scale(x, self.self_attn(self.input_layernorm(x), turn, past))
        return self.mlp_layer_scale(x, self.mlp(self.post_attention_layernorm(x)))


class DecoderTransformer(nn.Module):
    """The decoder's transformer with its projections from and to the latent width."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.input_proj = nn.Linear(config.latent_dim, config.hidden_size)
        self.layers = nn.ModuleList(self._layer(config, i) for i in range(config.num_layers))
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.output_proj = nn.Linear(config.hidden_size, config.latent_dim)

    @staticmethod
    def _layer(config: CodecDecoderConfig, index: int) -> Layer:
        width = config.hidden_size
        return Layer(
            Attention(width, config.num_heads, config.num_kv_heads, config.head_dim, index),
            SwiGLU(width, config.intermediate_size),
            (nn.RMSNorm(width, config.rms_norm_eps), nn.RMSNorm(width, config.rms_norm_eps)),
            width,
        )

    def forward(self, x: Tensor, past: Past) -> Tensor:
        turn = rotation(past.positions, self.config.head_dim, self.config.rope_theta, x.dtype)
        x = self.input_proj(x)
        for layer in self.layers:
            x = layer(x, turn, past)
        return self.output_proj(self.norm(x))


class EncoderTransformer(nn.Module):
    """The encoder's transformer: no projections, no final norm."""

    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(self._layer(config, i) for i in range(config.num_layers))

    @staticmethod
    def _layer(config: CodecEncoderConfig, index: int) -> Layer:
        width = config.hidden_size
        return Layer(
            Attention(width, config.num_heads, config.num_kv_heads, config.head_dim, index),
            GeluMLP(width, config.intermediate_size),
            (nn.LayerNorm(width, config.norm_eps), nn.LayerNorm(width, config.norm_eps)),
            width,
        )

    def forward(self, x: Tensor, past: Past) -> Tensor:
        turn = rotation(past.positions, self.config.head_dim, self.config.rope_theta, x.dtype)
        for layer in self.layers:
            x = layer(x, turn, past)
        return x
