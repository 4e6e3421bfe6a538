"""Both released sizes, built without memory: every count, shape and name against the published files.

The strongest check is the size of the whole file. A safetensors header spells every tensor's name, shape and offsets,
so a file that we would write has the published number of bytes only if names, shapes and counts are all right (up to
renamings of equal length, which the names listed below and the loading of the golden checkpoints exclude).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.models.qwen3_tts.released_configs import RELEASED, released_config
from ttsbench.models.qwen3_tts.checkpoint import Qwen3TTS
from ttsbench.models.qwen3_tts.codec import Codec
from ttsbench.models.qwen3_tts.codec_config import CodecConfig
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.speaker_encoder import SpeakerEncoderConfig

GOLDEN = Path(__file__).parents[2] / "golden"
DTYPE_WORDS = {torch.float32: "F32", torch.bfloat16: "BF16"}

PARTS: tuple[tuple[str, int, int], ...] = (
    # prefixes, 1.7B, 0.6B
    ("talker.model.layers. talker.model.norm.", 1_409_410_048, 440_467_456),
    ("talker.codec_head.", 6_291_456, 3_145_728),
    ("talker.model.codec_embedding.", 6_291_456, 3_145_728),
    ("talker.model.text_embedding. talker.text_projection.", 319_557_632, 317_459_456),
    ("talker.code_predictor.model.layers. talker.code_predictor.model.norm.", 78_655_744, 78_655_744),
    ("talker.code_predictor.lm_head.", 31_457_280, 31_457_280),
    ("talker.code_predictor.model.codec_embedding.", 62_914_560, 31_457_280),
    ("talker.code_predictor.small_to_mtp_projection.", 2_098_176, 0),
    ("talker.", 1_916_676_352, 905_788_672),
)
SPEAKER_ENCODER = {"1b7": 12_001_088, "0b6": 8_854_336}
NUM_TENSORS = {
    ("1b7", "base"): 480,
    ("1b7", "custom_voice"): 404,
    ("1b7", "voice_design"): 404,
    ("0b6", "base"): 478,
    ("0b6", "custom_voice"): 402,
}
BASE_FILE_BYTES = {"1b7": 3_857_413_744, "0b6": 1_829_344_272}
BASE_HEADER_BYTES = {"1b7": 58_864, "0b6": 58_256}
CODEC_FILE_BYTES = 682_293_092


@cache
def model_tensors(size: str, task: str) -> dict[str, Tensor]:
    data = released_config(size, task)
    speaker_encoder = SpeakerEncoderConfig.from_json(data) if task == "base" else None
    with torch.device("meta"):
        tensors = Qwen3TTS(Qwen3TTSConfig.from_dict(data), speaker_encoder).state_dict()
    assert all(tensor.is_meta for tensor in tensors.values())
    return tensors


@cache
def codec_tensors() -> dict[str, Tensor]:
    with torch.device("meta"):
        return Codec(CodecConfig.released()).state_dict()


def weights(tensors: Mapping[str, Tensor], prefixes: str = "") -> int:
    return sum(tensor.numel() for name, tensor in tensors.items() if name.startswith(tuple(prefixes.split()) or ""))


def header_bytes(tensors: Mapping[str, Tensor], dtype: torch.dtype, metadata: dict[str, str] | None = None) -> int:
    """Length of a safetensors header, padded to 8 bytes, behind its 8-byte length. Released ones hold no metadata."""
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name, tensor in sorted(tensors.items()):
        start, end = end, end + dtype.itemsize * tensor.numel()
        header[name] = {"dtype": DTYPE_WORDS[dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    return 8 + -(-len(json.dumps(header, separators=(",", ":"))) // 8) * 8


def payload_bytes(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> int:
    return dtype.itemsize * weights(tensors)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("toy-*/**/model.safetensors")), ids=lambda path: path.parent.name)
def test_the_computed_size_is_that_of_files_the_library_wrote(path: Path) -> None:
    """The formula itself. The toys were saved with a format note, which the released files lack."""
    tensors = load_file(path)
    header = header_bytes(tensors, torch.float32, {"format": "pt"})
    assert header + payload_bytes(tensors, torch.float32) == path.stat().st_size


@pytest.mark.parametrize(("prefixes", "large", "small"), PARTS)
def test_weights_of_every_part(prefixes: str, large: int, small: int) -> None:
    assert weights(model_tensors("1b7", "custom_voice"), prefixes) == large
    assert weights(model_tensors("0b6", "custom_voice"), prefixes) == small


def test_the_parts_are_the_whole() -> None:
    """Nothing is counted twice or left out above."""
    _, large, small = PARTS[-1]
    assert sum(part for _, part, _ in PARTS[:-1]) == large
    assert sum(part for _, _, part in PARTS[:-1]) == small


@pytest.mark.parametrize(("size", "task"), RELEASED)
def test_tensor_counts_and_totals(size: str, task: str) -> None:
    tensors = model_tensors(size, task)
    assert len(tensors) == NUM_TENSORS[size, task]
    assert weights(tensors, "speaker_encoder.") == (SPEAKER_ENCODER[size] if task == "base" else 0)
    _, large, small = PARTS[-1]
    assert weights(tensors, "talker.") == (large if size == "1b7" else small)
    assert weights(tensors) == weights(tensors, "talker. speaker_encoder.")


@pytest.mark.parametrize("size", ["1b7", "0b6"])
def test_a_base_file_would_have_the_published_size(size: str) -> None:
    """To break it: rename one module, or build the projection where both widths agree."""
    tensors = model_tensors(size, "base")
    assert header_bytes(tensors, torch.bfloat16) == BASE_HEADER_BYTES[size]
    assert payload_bytes(tensors, torch.bfloat16) == BASE_FILE_BYTES[size] - BASE_HEADER_BYTES[size]


def test_a_codec_file_would_have_the_published_size() -> None:
    tensors = codec_tensors()
    for half, count, size in (("decoder.", 271, 457_292_548), ("encoder.", 225, 224_937_216)):
        assert sum(name.startswith(half) for name in tensors) == count
        assert 4 * weights(tensors, half) == size
    assert len(tensors) == 496
    assert header_bytes(tensors, torch.float32) == 63_328
    assert payload_bytes(tensors, torch.float32) == CODEC_FILE_BYTES - 63_328


@pytest.mark.parametrize(
    ("name", "large", "small"),
    [
        ("model.text_embedding.weight", [151936, 2048], [151936, 2048]),
        ("text_projection.linear_fc1.bias", [2048], [2048]),
        ("text_projection.linear_fc2.weight", [2048, 2048], [1024, 2048]),
        ("model.codec_embedding.weight", [3072, 2048], [3072, 1024]),
        ("codec_head.weight", [3072, 2048], [3072, 1024]),
        ("model.layers.27.self_attn.q_proj.weight", [2048, 2048], [2048, 1024]),
        ("model.layers.0.self_attn.k_proj.weight", [1024, 2048], [1024, 1024]),
        ("model.layers.0.self_attn.v_proj.weight", [1024, 2048], [1024, 1024]),
        ("model.layers.0.self_attn.o_proj.weight", [2048, 2048], [1024, 2048]),
        ("model.layers.0.self_attn.q_norm.weight", [128], [128]),
        ("model.layers.0.self_attn.k_norm.weight", [128], [128]),
        ("model.layers.0.input_layernorm.weight", [2048], [1024]),
        ("model.layers.0.post_attention_layernorm.weight", [2048], [1024]),
        ("model.layers.0.mlp.gate_proj.weight", [6144, 2048], [3072, 1024]),
        ("model.layers.0.mlp.up_proj.weight", [6144, 2048], [3072, 1024]),
        ("model.layers.0.mlp.down_proj.weight", [2048, 6144], [1024, 3072]),
        ("model.norm.weight", [2048], [1024]),
        ("code_predictor.model.layers.4.self_attn.q_proj.weight", [2048, 1024], [2048, 1024]),
        ("code_predictor.model.norm.weight", [1024], [1024]),
        ("code_predictor.model.codec_embedding.14.weight", [2048, 2048], [2048, 1024]),
        ("code_predictor.lm_head.14.weight", [2048, 1024], [2048, 1024]),
        ("code_predictor.small_to_mtp_projection.weight", [1024, 2048], None),
        ("code_predictor.small_to_mtp_projection.bias", [1024], None),
    ],
)
def test_published_names_and_shapes(name: str, large: list[int], small: list[int] | None) -> None:
    for size, shape in (("1b7", large), ("0b6", small)):
        tensor = model_tensors(size, "custom_voice").get(f"talker.{name}")
        assert (None if tensor is None else list(tensor.shape)) == shape
