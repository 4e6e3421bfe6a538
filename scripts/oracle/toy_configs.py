"""Configurations of the toy checkpoints: the released structure and control ids, every width as small as it goes.

Widths that could be confused differ from each other (text, talker, predictor; codec latent, hidden, attention), so that
an implementation that swaps two of them cannot load the weights. Only the 0.6B toy has one width for talker and code
predictor: there the projection between them is missing, as in the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NUM_CODES = 64
"""Rows of every codebook. The talker keeps its released vocabulary of 3,072, so `toy_weights` bars codes 64..2047."""

LANGUAGES = {"english": 2050, "german": 2053, "chinese": 2055, "sichuan_dialect": 2062}
SPEAKERS = {"serena": 3066, "vivian": 3065, "eric": 2875}
CONTROL = {
    "codec_pad_id": 2148,
    "codec_bos_id": 2149,
    "codec_eos_token_id": 2150,
    "codec_think_id": 2154,
    "codec_nothink_id": 2155,
    "codec_think_bos_id": 2156,
    "codec_think_eos_id": 2157,
}


_SHARED = {
    "head_dim": 16,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
    "max_position_embeddings": 4096,
    "attention_bias": False,
    "use_sliding_window": False,
    "sliding_window": None,
}


@dataclass(frozen=True)
class Toy:
    """One toy folder. `seed` also decides the weights of its codec, so that no two toys decode alike."""

    name: str
    kind: str
    size: str
    hidden: int
    predictor_hidden: int
    seed: int


TOYS = (
    Toy("toy-custom-voice", "custom_voice", "1b7", hidden=24, predictor_hidden=20, seed=11),
    Toy("toy-custom-voice-0b6", "custom_voice", "0b6", hidden=16, predictor_hidden=16, seed=12),
    Toy("toy-voice-design", "voice_design", "1b7", hidden=16, predictor_hidden=12, seed=23),
    Toy("toy-base", "base", "1b7", hidden=24, predictor_hidden=20, seed=14),
)


def main_config(toy: Toy, ids: dict[str, int], text_vocab: int) -> dict[str, Any]:
    """`config.json` of the folder."""
    config: dict[str, Any] = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tts_model_type": toy.kind,
        "tts_model_size": toy.size,
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "im_start_token_id": ids["<|im_start|>"],
        "im_end_token_id": ids["<|im_end|>"],
        "tts_pad_token_id": ids["<tts_pad>"],
        "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
        "torch_dtype": "float32",
        "talker_config": _talker(toy, text_vocab),
    }
    if toy.kind == "base":
        config["speaker_encoder_config"] = {
            "enc_dim": toy.hidden,
            "sample_rate": 24000,
            "enc_channels": [16, 16, 16, 16, 48],
            "enc_attention_channels": 12,
            "enc_se_channels": 12,
        }
    return config


def _talker(toy: Toy, text_vocab: int) -> dict[str, Any]:
    custom = toy.kind == "custom_voice"
    languages = LANGUAGES if custom else {k: v for k, v in LANGUAGES.items() if "dialect" not in k}
    return {
        "model_type": "qwen3_tts_talker",
        "vocab_size": 3072,
        "text_vocab_size": text_vocab,
        "text_hidden_size": 40,
        "hidden_size": toy.hidden,
        "intermediate_size": 56,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_code_groups": 16,
        "position_id_per_seconds": 13,
        "rope_scaling": {"interleaved": True, "mrope_section": [4, 2, 2], "rope_type": "default", "type": "default"},
        "codec_language_id": languages,
        "spk_id": SPEAKERS if custom else {},
        "spk_is_dialect": {s: "sichuan_dialect" if s == "eric" else False for s in SPEAKERS} if custom else {},
        "code_predictor_config": {
            "model_type": "qwen3_tts_talker_code_predictor",
            "vocab_size": NUM_CODES,
            "hidden_size": toy.predictor_hidden,
            "intermediate_size": 40,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "num_code_groups": 16,
            "rope_scaling": None,
            **_SHARED,
        },
        **CONTROL,
        **_SHARED,
    }


CODEC_CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3TTSTokenizerV2Model"],
    "model_type": "qwen3_tts_tokenizer_12hz",
    "torch_dtype": "float32",
    "input_sample_rate": 24000,
    "output_sample_rate": 24000,
    "decode_upsample_rate": 1920,
    "encode_downsample_rate": 1920,
    "encoder_valid_num_quantizers": 16,
    "encoder_config": {
        "sampling_rate": 24000,
        "frame_rate": 12.5,
        "audio_channels": 1,
        "num_filters": 2,
        "num_residual_layers": 1,
        "upsampling_ratios": [8, 6, 5, 4],
        "kernel_size": 7,
        "last_kernel_size": 3,
        "residual_kernel_size": 3,
        "dilation_growth_rate": 2,
        "compress": 2,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "pad_mode": "constant",
        "hidden_size": 16,
        "intermediate_size": 28,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "hidden_act": "gelu",
        "norm_eps": 1e-5,
        "rope_theta": 10000,
        "sliding_window": 20,
        "max_position_embeddings": 8000,
        "layer_scale_initial_scale": 0.01,
        "attention_bias": False,
        "use_cache": False,
        "codebook_size": NUM_CODES,
        "codebook_dim": 8,
        "vector_quantization_hidden_dimension": 8,
        "num_quantizers": 32,
        "num_semantic_quantizers": 1,
        "upsample_groups": 16,
    },
    "decoder_config": {
        "codebook_size": NUM_CODES,
        "codebook_dim": 16,
        "hidden_size": 20,
        "latent_dim": 24,
        "intermediate_size": 28,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000,
        "sliding_window": 12,
        "max_position_embeddings": 8000,
        "layer_scale_initial_scale": 0.01,
        "attention_bias": False,
        "num_quantizers": 16,
        "num_semantic_quantizers": 1,
        "vector_quantization_hidden_dimension": 16,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "decoder_dim": 32,
    },
}

GENERATION_CONFIG: dict[str, Any] = {
    "do_sample": True,
    "temperature": 0.9,
    "top_k": 50,
    "top_p": 1.0,
    "repetition_penalty": 1.05,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_k": 50,
    "subtalker_top_p": 1.0,
    "max_new_tokens": 8192,
}

FEATURE_EXTRACTOR: dict[str, Any] = {
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "sampling_rate": 24000,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "chunk_length_s": None,
    "overlap": None,
}
