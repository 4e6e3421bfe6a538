"""The codec's config file: the published one is the released geometry, and nothing missing or unsupported passes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from ttsbench.core import InvalidInput
from ttsbench.models.qwen3_tts.codec_config import CodecConfig

PUBLISHED: dict[str, Any] = {
    "model_type": "qwen3_tts_tokenizer_12hz",
    "encoder_valid_num_quantizers": 16,
    "input_sample_rate": 24000,
    "output_sample_rate": 24000,
    "decode_upsample_rate": 1920,
    "encode_downsample_rate": 1920,
    "decoder_config": {
        "attention_bias": False,
        "latent_dim": 1024,
        "codebook_dim": 512,
        "codebook_size": 2048,
        "decoder_dim": 1536,
        "hidden_act": "silu",
        "hidden_size": 512,
        "intermediate_size": 1024,
        "max_position_embeddings": 8000,
        "head_dim": 64,
        "num_attention_heads": 16,
        "num_hidden_layers": 8,
        "num_key_value_heads": 16,
        "num_quantizers": 16,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000,
        "semantic_codebook_size": 4096,
        "sliding_window": 72,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "vector_quantization_hidden_dimension": 512,
    },
    "encoder_config": {
        "audio_channels": 1,
        "codebook_dim": 256,
        "codebook_size": 2048,
        "compress": 2,
        "head_dim": 64,
        "hidden_act": "gelu",
        "hidden_size": 512,
        "intermediate_size": 2048,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "norm_eps": 1e-05,
        "num_attention_heads": 8,
        "num_filters": 64,
        "num_hidden_layers": 8,
        "num_key_value_heads": 8,
        "num_quantizers": 32,
        "num_residual_layers": 1,
        "num_semantic_quantizers": 1,
        "pad_mode": "constant",
        "residual_kernel_size": 3,
        "rope_theta": 10000.0,
        "sliding_window": 250,
        "upsampling_ratios": [8, 6, 5, 4],
        "use_causal_conv": True,
        "vector_quantization_hidden_dimension": 256,
    },
}
"""The fields of the published `speech_tokenizer/config.json` that describe the model."""


def changed(section: str | None, **values: Any) -> dict[str, Any]:
    data = copy.deepcopy(PUBLISHED)
    (data if section is None else data[section]).update(values)
    return data


def without(section: str | None, key: str) -> dict[str, Any]:
    data = copy.deepcopy(PUBLISHED)
    del (data if section is None else data[section])[key]
    return data


def faults(data: Mapping[str, Any]) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        CodecConfig.from_json(data)
    return [problem.where.rpartition(": ")[2] for problem in caught.value.problems]


def test_the_published_config_is_the_released_geometry() -> None:
    config = CodecConfig.from_json(PUBLISHED)
    assert config == CodecConfig.released()
    assert config.hop == config.encoder.hop == 1920
    assert config.sample_rate_hz / config.hop == 12.5


OPTIONAL = {
    "attention_bias",
    "audio_channels",
    "hidden_act",
    "max_position_embeddings",
    "num_residual_layers",
    "num_semantic_quantizers",
    "pad_mode",
    "semantic_codebook_size",
    "use_causal_conv",
    "vector_quantization_hidden_dimension",
}
"""Unread, or with one supported value that is also the published class default."""

REQUIRED = [(None, key) for key in PUBLISHED] + [
    (section, key)
    for section in ("decoder_config", "encoder_config")
    for key in PUBLISHED[section]
    if key not in OPTIONAL and (section, key) != ("encoder_config", "sliding_window")
]


@pytest.mark.parametrize(("section", "key"), REQUIRED)
def test_a_missing_field_is_an_error_that_names_it(section: str | None, key: str) -> None:
    """No class default stands in: the published code would make hidden 1024 of a missing 512."""
    assert key in faults(without(section, key))


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("decoder_config", "hidden_act", "gelu"),
        ("decoder_config", "attention_bias", True),
        ("decoder_config", "hidden_size", None),
        ("decoder_config", "hidden_size", "512"),
        ("decoder_config", "num_hidden_layers", 0),
        ("decoder_config", "num_key_value_heads", 3),
        ("decoder_config", "head_dim", 63),
        ("decoder_config", "upsample_rates", []),
        ("decoder_config", "upsample_rates", [8, 5, 4, -3]),
        ("decoder_config", "num_semantic_quantizers", 2),
        ("encoder_config", "use_causal_conv", False),
        ("encoder_config", "num_residual_layers", 2),
        ("encoder_config", "num_quantizers", 15),
        ("encoder_config", "codebook_dim", 512),
        (None, "decode_upsample_rate", 2000),
        (None, "encode_downsample_rate", 2000),
        (None, "encoder_valid_num_quantizers", 8),
        (None, "input_sample_rate", 16000),
        (None, "model_type", "qwen3_tts_tokenizer_25hz"),
    ],
)
def test_an_unsupported_value_is_an_error_that_names_its_field(section: str | None, key: str, value: Any) -> None:
    assert key in faults(changed(section, **{key: value}))


def test_all_faults_are_listed_at_once() -> None:
    data = without("decoder_config", "hidden_size")
    del data["encoder_config"]["num_filters"], data["decode_upsample_rate"]
    assert {"hidden_size", "num_filters", "decode_upsample_rate"} <= set(faults(data))
