"""Sizes of `tiny` and `tiny-base`: the JSON files of the published layout, and our modules built from them.

Everything here is data or follows from it. `tiny` speaks with four named voices (`custom_voice`), `tiny-base` copies
the voice of a reference (`base`) and carries a speaker encoder. Both write the codes of one codec; its decoder and its
encoder may be trained further for one of them. Codec ids are the published ones, so the talker's vocabulary stays 3,072
although a codebook has 256 rows: rows 256..2047 of its head are never right, and every sampler may draw them, so that
training must make them unlikely.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ttsbench.core import InvalidInput, Problem
from ttsbench.models.qwen3_tts.codec_config import CodecConfig
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.codec_encoder import CodecEncoder
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig, read_json
from ttsbench.models.qwen3_tts.speaker_encoder import SpeakerEncoder, SpeakerEncoderConfig
from ttsbench.models.qwen3_tts.talker import Talker

SAMPLE_RATE_HZ = 24_000
HOP = 1920
"""Samples of a codec frame."""
FRAMES_A_SECOND = SAMPLE_RATE_HZ / HOP
NUM_CODEBOOKS = 16
CODEBOOK_SIZE = 256
ROW_WIDTH = 64
"""Width of a codebook row, and of the latent that the rows quantise."""
WIDTH = 256
"""Talker width, which is also that of a speaker vector."""


class Kind(StrEnum):
    """The two checkpoints; their folders bear these names."""

    TINY = "tiny"
    BASE = "tiny-base"


SPEAKERS = {"heart": 3000, "bella": 3001, "michael": 3002, "fenrir": 3003}
ENGLISH = 2050
CONTROL_IDS = {
    "codec_pad_id": 2148,
    "codec_bos_id": 2149,
    "codec_eos_token_id": 2150,
    "codec_think_id": 2154,
    "codec_nothink_id": 2155,
    "codec_think_bos_id": 2156,
    "codec_think_eos_id": 2157,
}
TEXT_TOKENS = {
    "im_start_token_id": "<|im_start|>",
    "im_end_token_id": "<|im_end|>",
    "tts_pad_token_id": "<tts_pad>",
    "tts_bos_token_id": "<tts_text_bos>",
    "tts_eos_token_id": "<tts_text_eod>",
}
"""Key of `config.json` -> the token whose id it holds, in the spelling of the published tokenizer."""

_ATTENTION: dict[str, Any] = {
    "head_dim": 64,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000,
    "max_position_embeddings": 4096,
    "attention_bias": False,
    "attention_dropout": 0,
    "use_sliding_window": False,
    "sliding_window": None,
    "num_code_groups": NUM_CODEBOOKS,
}

_PREDICTOR: dict[str, Any] = {
    "model_type": "qwen3_tts_talker_code_predictor",
    "vocab_size": CODEBOOK_SIZE,
    "hidden_size": 192,
    "intermediate_size": 384,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "rope_scaling": None,
    **_ATTENTION,
}

_TALKER: dict[str, Any] = {
    "model_type": "qwen3_tts_talker",
    "vocab_size": 3072,
    "text_hidden_size": 256,
    "hidden_size": WIDTH,
    "intermediate_size": 640,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "position_id_per_seconds": 13,
    "rope_scaling": {"interleaved": True, "mrope_section": [12, 10, 10], "rope_type": "default", "type": "default"},
    "codec_language_id": {"english": ENGLISH},
    **CONTROL_IDS,
    **_ATTENTION,
}

SPEAKER_ENCODER: dict[str, Any] = {
    "enc_dim": WIDTH,
    "sample_rate": SAMPLE_RATE_HZ,
    "mel_dim": 128,
    "enc_channels": [96, 96, 96, 96, 288],
    "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1],
    "enc_attention_channels": 32,
    "enc_res2net_scale": 4,
    "enc_se_channels": 32,
}

_CODEC_ENCODER: dict[str, Any] = {
    "model_type": "mimi",
    "sampling_rate": SAMPLE_RATE_HZ,
    "audio_channels": 1,
    "num_filters": 12,
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
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_act": "gelu",
    "norm_eps": 1e-5,
    "rope_theta": 10000,
    # Only flash attention reads it (see codec_encoder.py): 40 s, longer than any reference, so that all paths agree.
    "sliding_window": 1000,
    "max_position_embeddings": 8000,
    "layer_scale_initial_scale": 0.01,
    "attention_bias": False,
    "use_cache": False,
    "codebook_size": CODEBOOK_SIZE,
    "codebook_dim": ROW_WIDTH,
    "vector_quantization_hidden_dimension": ROW_WIDTH,
    "num_quantizers": NUM_CODEBOOKS,
    "num_semantic_quantizers": 1,
    "upsample_groups": 128,
}

_CODEC_DECODER: dict[str, Any] = {
    "codebook_size": CODEBOOK_SIZE,
    "codebook_dim": 2 * ROW_WIDTH,
    "hidden_size": 192,
    "latent_dim": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000,
    "sliding_window": 16,
    "max_position_embeddings": 8000,
    "layer_scale_initial_scale": 0.01,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "num_quantizers": NUM_CODEBOOKS,
    "num_semantic_quantizers": 1,
    "vector_quantization_hidden_dimension": 2 * ROW_WIDTH,
    "upsample_rates": [8, 5, 4, 3],
    "upsampling_ratios": [2, 2],
    "decoder_dim": 256,
}

CODEC: dict[str, Any] = {
    "architectures": ["Qwen3TTSTokenizerV2Model"],
    "model_type": "qwen3_tts_tokenizer_12hz",
    "torch_dtype": "float32",
    "input_sample_rate": SAMPLE_RATE_HZ,
    "output_sample_rate": SAMPLE_RATE_HZ,
    "decode_upsample_rate": HOP,
    "encode_downsample_rate": HOP,
    "encoder_valid_num_quantizers": NUM_CODEBOOKS,
    "encoder_config": _CODEC_ENCODER,
    "decoder_config": _CODEC_DECODER,
}
"""`speech_tokenizer/config.json`, of both kinds."""

PREPROCESSOR: dict[str, Any] = {"padding_side": "left", "processor_class": "Qwen3TTSProcessor"}

CODEC_PREPROCESSOR: dict[str, Any] = {
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "sampling_rate": SAMPLE_RATE_HZ,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "chunk_length_s": None,
    "overlap": None,
}


def main_json(kind: Kind, text: Path) -> dict[str, Any]:
    """`config.json` of a kind, with the ids of the tokenizer in the folder `text`. Raises InvalidInput."""
    named, rows = _tokenizer_ids(text)
    speakers = SPEAKERS if kind is Kind.TINY else {}
    talker = {
        **_TALKER,
        "text_vocab_size": rows,
        "spk_id": speakers,
        "spk_is_dialect": dict.fromkeys(speakers, False),
        "code_predictor_config": _PREDICTOR,
    }
    config: dict[str, Any] = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "torch_dtype": "float16",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": "0b6",  # the published wrapper drops instructions for this size, and none was trained
        "tts_model_type": "custom_voice" if kind is Kind.TINY else "base",
        **{key: named[token] for key, token in TEXT_TOKENS.items()},
        "talker_config": talker,
    }
    return config if kind is Kind.TINY else {**config, "speaker_encoder_config": SPEAKER_ENCODER}


def talker_modules(kind: Kind, text: Path) -> tuple[Qwen3TTSConfig, Talker]:
    """The talker with its code predictor. Embedding tables are uninitialised memory: the trainer fills them."""
    config = Qwen3TTSConfig.from_dict(main_json(kind, text))
    return config, Talker(config)


def codec_modules() -> tuple[CodecConfig, CodecDecoder, CodecEncoder]:
    """Both directions of the codec; the codebooks are zero until `fill_codebooks`."""
    config = CodecConfig.from_json(CODEC)
    return config, CodecDecoder(config.decoder), CodecEncoder(config.encoder)


@torch.no_grad()
def fill_codebooks(quantizer: nn.Module, rows: Tensor) -> None:
    """Write fitted codebooks `rows` [Q, N, E] into the `quantizer` of a codec decoder or encoder, as means of one.

    The projections beside them belong to the trainer: `output_proj` of the decoder and `input_proj` of the encoder are
    in the units of these rows. `finalize` must follow, as after loading weights.
    """
    sums = [b for name, b in quantizer.named_buffers() if name.endswith(("embedding_sum", "embed_sum"))]
    for buffer, book in zip(sums, rows, strict=True):
        buffer.copy_(book)


def speaker_encoder() -> SpeakerEncoder:
    """The speaker encoder of `tiny-base`."""
    return SpeakerEncoder(SpeakerEncoderConfig.from_json({"speaker_encoder_config": SPEAKER_ENCODER}))


def _tokenizer_ids(text: Path) -> tuple[dict[str, int], int]:
    """Ids of the named tokens, and how many rows the text embedding needs."""
    path = text / "tokenizer_config.json"
    listed = read_json(path).get("added_tokens_decoder", {})
    named = {token["content"]: int(number) for number, token in listed.items()}
    missing = [token for token in TEXT_TOKENS.values() if token not in named]
    if missing:
        raise InvalidInput(Problem(str(path), f"the tokens {', '.join(TEXT_TOKENS.values())}", f"no {missing}"))
    return named, 1 + max(*named.values(), *read_json(text / "vocab.json").values())
