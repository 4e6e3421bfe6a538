"""What a published `speech_tokenizer/config.json` says about the 12.5 Hz codec, read once and frozen.

The class defaults of the published code describe no released codec (decoder hidden 1024 where every release has 512),
so a missing field is an error that names it, never a default. What the architecture fixes (causal convolutions, SwiGLU,
one residual layer per encoder stage, ...) is checked when the file mentions it.

Shape words: B rows, F codec frames, n frames of one call, Q codebooks, C channels, S slots.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttsbench.models.qwen3_tts.config import Fields, read_json

NUM_SEMANTIC = 1
"""The first codebook is semantic and has its own projections; the published decoder code fixes the number."""

ENCODER_DOWNSAMPLE = 2
"""Stride of the encoder's last convolution, 25 Hz to 12.5 Hz; the published encoder code fixes it."""

_DERIVED = ("input_sample_rate", "decode_upsample_rate", "encode_downsample_rate", "encoder_valid_num_quantizers")
"""Top-level fields that the rest of the file determines; they must agree with it."""


@dataclass(frozen=True)
class CodecDecoderConfig:
    """Geometry of codes -> PCM. `released()` holds the published values."""

    num_codebooks: int
    codebook_size: int
    codebook_dim: int
    """Width of a dequantised vector; a codebook row has half of it."""
    latent_dim: int
    """Width around the transformer and of the upsampling stage."""
    decoder_dim: int
    """Width where the convolution blocks start; each block halves it."""
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    window: int
    """Frames a query of the transformer sees, itself included."""
    rope_theta: float
    rms_norm_eps: float
    upsampling_ratios: tuple[int, ...]
    upsample_rates: tuple[int, ...]

    @property
    def hop(self) -> int:
        """Samples per codec frame."""
        return math.prod(self.upsampling_ratios) * math.prod(self.upsample_rates)

    @classmethod
    def released(cls) -> CodecDecoderConfig:
        """The decoder in every published 12 Hz repository (114 M parameters, 1,920 samples per frame)."""
        return cls(
            num_codebooks=16,
            codebook_size=2048,
            codebook_dim=512,
            latent_dim=1024,
            decoder_dim=1536,
            hidden_size=512,
            intermediate_size=1024,
            num_layers=8,
            num_heads=16,
            num_kv_heads=16,
            head_dim=64,
            window=72,
            rope_theta=10_000.0,
            rms_norm_eps=1e-5,
            upsampling_ratios=(2, 2),
            upsample_rates=(8, 5, 4, 3),
        )


@dataclass(frozen=True)
class CodecEncoderConfig:
    """Geometry of PCM -> codes (Mimi). `released()` holds the published values."""

    num_codebooks: int
    """Codebooks used. The file stores `stored_codebooks`, more than are used."""
    stored_codebooks: int
    codebook_size: int
    codebook_dim: int
    num_filters: int
    kernel_size: int
    residual_kernel_size: int
    last_kernel_size: int
    compress: int
    ratios: tuple[int, ...]
    """Strides in the published order, coarsest first; the encoder applies them from the last to the first."""
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    norm_eps: float

    @property
    def hop(self) -> int:
        """Samples per codec frame."""
        return math.prod(self.ratios) * ENCODER_DOWNSAMPLE

    @classmethod
    def released(cls) -> CodecEncoderConfig:
        """The encoder in every published 12 Hz repository."""
        return cls(
            num_codebooks=16,
            stored_codebooks=32,
            codebook_size=2048,
            codebook_dim=256,
            num_filters=64,
            kernel_size=7,
            residual_kernel_size=3,
            last_kernel_size=3,
            compress=2,
            ratios=(8, 6, 5, 4),
            hidden_size=512,
            intermediate_size=2048,
            num_layers=8,
            num_heads=8,
            num_kv_heads=8,
            head_dim=64,
            rope_theta=10_000.0,
            norm_eps=1e-5,
        )


@dataclass(frozen=True)
class CodecConfig:
    """Both directions of one codec."""

    decoder: CodecDecoderConfig
    encoder: CodecEncoderConfig
    sample_rate_hz: int

    @property
    def hop(self) -> int:
        """Samples per codec frame."""
        return self.decoder.hop

    @classmethod
    def released(cls) -> CodecConfig:
        """The codec in every published 12 Hz repository."""
        return cls(CodecDecoderConfig.released(), CodecEncoderConfig.released(), sample_rate_hz=24_000)

    @classmethod
    def from_json(cls, source: Path | str | Mapping[str, Any]) -> CodecConfig:
        """Read `speech_tokenizer/config.json`, given as a path or as its parsed content.

        Raises InvalidInput listing every missing, mistyped or unsupported field.
        """
        if isinstance(source, Mapping):
            data, where = source, "speech_tokenizer/config.json"
        else:
            data, where = read_json(Path(source)), str(source)
        fields = Fields(data, where)
        fields.choice("model_type", ["qwen3_tts_tokenizer_12hz"])
        decoder_fields, encoder_fields = fields.section("decoder_config"), fields.section("encoder_config")
        decoder = _decoder(decoder_fields)
        encoder = _encoder(encoder_fields, data.get("encoder_valid_num_quantizers"))
        sample_rate_hz = _number(fields, "output_sample_rate", int)
        for key in _DERIVED:
            _number(fields, key, int)
        fields.raise_problems()  # arithmetic on fields only once all of them are there
        derived = (sample_rate_hz, decoder.hop, encoder.hop, decoder.num_codebooks)
        for key, value in zip(_DERIVED, derived, strict=True):
            if data[key] != value:
                fields.fail(key, f"{value}, which the other fields give", data[key])
        _check_attention(decoder_fields)
        _check_attention(encoder_fields)
        fields.raise_problems()
        return cls(decoder, encoder, sample_rate_hz)


def _decoder(fields: Fields) -> CodecDecoderConfig:
    _expect(fields, attention_bias=False, hidden_act="silu", num_semantic_quantizers=NUM_SEMANTIC)
    return CodecDecoderConfig(
        num_codebooks=_number(fields, "num_quantizers", int),
        codebook_size=_number(fields, "codebook_size", int),
        codebook_dim=_number(fields, "codebook_dim", int),
        latent_dim=_number(fields, "latent_dim", int),
        decoder_dim=_number(fields, "decoder_dim", int),
        hidden_size=_number(fields, "hidden_size", int),
        intermediate_size=_number(fields, "intermediate_size", int),
        num_layers=_number(fields, "num_hidden_layers", int),
        num_heads=_number(fields, "num_attention_heads", int),
        num_kv_heads=_number(fields, "num_key_value_heads", int),
        head_dim=_number(fields, "head_dim", int),
        window=_number(fields, "sliding_window", int),
        rope_theta=_number(fields, "rope_theta", float),
        rms_norm_eps=_number(fields, "rms_norm_eps", float),
        upsampling_ratios=_strides(fields, "upsampling_ratios"),
        upsample_rates=_strides(fields, "upsample_rates"),
    )


def _encoder(fields: Fields, num_codebooks: Any) -> CodecEncoderConfig:
    _expect(
        fields,
        attention_bias=False,
        audio_channels=1,
        hidden_act="gelu",
        num_residual_layers=1,
        num_semantic_quantizers=NUM_SEMANTIC,
        pad_mode="constant",
        use_causal_conv=True,
        use_conv_shortcut=False,
    )
    config = CodecEncoderConfig(
        num_codebooks=num_codebooks,
        stored_codebooks=_number(fields, "num_quantizers", int),
        codebook_size=_number(fields, "codebook_size", int),
        codebook_dim=_number(fields, "codebook_dim", int),
        num_filters=_number(fields, "num_filters", int),
        kernel_size=_number(fields, "kernel_size", int),
        residual_kernel_size=_number(fields, "residual_kernel_size", int),
        last_kernel_size=_number(fields, "last_kernel_size", int),
        compress=_number(fields, "compress", int),
        ratios=_strides(fields, "upsampling_ratios"),
        hidden_size=_number(fields, "hidden_size", int),
        intermediate_size=_number(fields, "intermediate_size", int),
        num_layers=_number(fields, "num_hidden_layers", int),
        num_heads=_number(fields, "num_attention_heads", int),
        num_kv_heads=_number(fields, "num_key_value_heads", int),
        head_dim=_number(fields, "head_dim", int),
        rope_theta=_number(fields, "rope_theta", float),
        norm_eps=_number(fields, "norm_eps", float),
    )
    _expect(fields, vector_quantization_hidden_dimension=config.codebook_dim)
    if isinstance(num_codebooks, int) and config.stored_codebooks < num_codebooks:
        fields.fail("num_quantizers", f"at least encoder_valid_num_quantizers {num_codebooks}", config.stored_codebooks)
    if config.codebook_dim == config.hidden_size:
        fields.fail("codebook_dim", "a width other than hidden_size", config.codebook_dim)
    return config


def _number(fields: Fields, key: str, kind: type) -> Any:
    """A required positive number. `null` counts as missing: no field here has a meaning for it."""
    value = fields.get(key, kind)
    if key in fields.data and not (value is not None and value > 0):
        fields.fail(key, f"a positive {kind.__name__}", fields.data[key])
    return value


def _strides(fields: Fields, key: str) -> tuple[int, ...]:
    values = fields.get(key, list) or []
    if key in fields.data and not (values and all(type(v) is int and v > 0 for v in values)):
        fields.fail(key, "a list of positive int", fields.data[key])
    return tuple(values)


def _expect(fields: Fields, **fixed: Any) -> None:
    """Fields with one supported value, which is also the published class default: absent is fine."""
    for key, value in fixed.items():
        fields.expect(key, value)


def _check_attention(fields: Fields) -> None:
    heads, kv_heads = fields.data["num_attention_heads"], fields.data["num_key_value_heads"]
    if heads % kv_heads:
        fields.fail("num_key_value_heads", f"a divisor of num_attention_heads ({heads})", kv_heads)
    if fields.data["head_dim"] % 2:
        fields.fail("head_dim", "an even int (rotary pairs)", fields.data["head_dim"])
