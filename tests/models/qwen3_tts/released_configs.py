"""The released `config.json` files, as far as the published sizes, tables and ids are known: what tests build from."""

from __future__ import annotations

from typing import Any

LANGUAGES = {
    "chinese": 2055,
    "english": 2050,
    "french": 2061,
    "german": 2053,
    "italian": 2070,
    "japanese": 2058,
    "korean": 2064,
    "portuguese": 2071,
    "russian": 2069,
    "spanish": 2054,
}
"""What every task's checkpoints speak."""

DIALECTS = {"beijing_dialect": 2074, "sichuan_dialect": 2062}
"""CustomVoice alone."""

SPEAKERS = {
    "serena": 3066,
    "vivian": 3065,
    "uncle_fu": 3010,
    "ryan": 3061,
    "aiden": 2861,
    "ono_anna": 2873,
    "sohee": 2864,
    "eric": 2875,
    "dylan": 2878,
}
DIALECT_SPEAKERS = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}

CONTROL_IDS = {
    "codec_pad_id": 2148,
    "codec_bos_id": 2149,
    "codec_eos_token_id": 2150,
    "codec_think_id": 2154,
    "codec_nothink_id": 2155,
    "codec_think_bos_id": 2156,
    "codec_think_eos_id": 2157,
}
TEXT_IDS = {
    "im_start_token_id": 151644,
    "im_end_token_id": 151645,
    "tts_pad_token_id": 151671,
    "tts_bos_token_id": 151672,
    "tts_eos_token_id": 151673,
}

LAYER = {
    "head_dim": 128,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
    "hidden_act": "silu",
    "attention_bias": False,
    "use_sliding_window": False,
    "sliding_window": None,
}
"""What every decoder layer of talker and code predictor shares."""

TALKER_WIDTHS = {
    "1b7": {"hidden_size": 2048, "intermediate_size": 6144},
    "0b6": {"hidden_size": 1024, "intermediate_size": 3072},
}

CODE_PREDICTOR: dict[str, Any] = LAYER | {
    "model_type": "qwen3_tts_talker_code_predictor",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 5,
    "num_code_groups": 16,
    "vocab_size": 2048,
    "max_position_embeddings": 65536,
    "rope_scaling": None,
}

RELEASED = (
    ("1b7", "base"),
    ("1b7", "custom_voice"),
    ("1b7", "voice_design"),
    ("0b6", "base"),
    ("0b6", "custom_voice"),
)
"""Size and task of every published checkpoint."""


def released_config(size: str, task: str) -> dict[str, Any]:
    """A fresh `config.json` of size "1b7" or "0b6" for task "base", "custom_voice" or "voice_design"."""
    named = task == "custom_voice"
    talker = LAYER | TALKER_WIDTHS[size] | CONTROL_IDS
    talker |= {
        "model_type": "qwen3_tts_talker",
        "num_hidden_layers": 28,
        "num_code_groups": 16,
        "vocab_size": 3072,
        "text_vocab_size": 151936,
        "text_hidden_size": 2048,
        "max_position_embeddings": 32768,
        "position_id_per_seconds": 13,
        "rope_scaling": {"interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default", "type": "default"},
        "codec_language_id": LANGUAGES | (DIALECTS if named else {}),
        "spk_id": dict(SPEAKERS) if named else {},
        "spk_is_dialect": {name: DIALECT_SPEAKERS.get(name, False) for name in SPEAKERS} if named else {},
        "code_predictor_config": dict(CODE_PREDICTOR),
    }
    config = TEXT_IDS | {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": size,
        "tts_model_type": task,
        "talker_config": talker,
    }
    if task == "base":
        config["speaker_encoder_config"] = {
            "enc_dim": TALKER_WIDTHS[size]["hidden_size"],
            "sample_rate": 24000,
        }
    return config
