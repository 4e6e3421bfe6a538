"""Write the toy checkpoints under tests/golden/: seeded random weights, float32, in the published folder layout.

python scripts/oracle/make_toys.py [TARGET]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from official import (
    Qwen3TTSConfig,
    Qwen3TTSForConditionalGeneration,
    Qwen3TTSTokenizerV2Config,
    Qwen3TTSTokenizerV2Model,
)
from safetensors.torch import save_file
from toy_configs import CODEC_CONFIG, FEATURE_EXTRACTOR, GENERATION_CONFIG, TOYS, Toy, main_config
from toy_tokenizer import write_tokenizer
from toy_weights import fill_codec, fill_talker

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"


def write_toy(toy: Toy, target: Path) -> None:
    """Write one folder, talker and codec."""
    folder, codec_folder = target / toy.name, target / toy.name / "speech_tokenizer"
    codec_folder.mkdir(parents=True, exist_ok=True)
    ids = write_tokenizer(folder)
    config = main_config(toy, ids, text_vocab=max(ids.values()) + 1)
    model = Qwen3TTSForConditionalGeneration(Qwen3TTSConfig(**config)).eval()
    fill_talker(model, toy.seed)
    codec = Qwen3TTSTokenizerV2Model(Qwen3TTSTokenizerV2Config(**CODEC_CONFIG)).eval()
    fill_codec(codec, toy.seed + 100)
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", GENERATION_CONFIG)
    _write_json(folder / "preprocessor_config.json", {"padding_side": "left", "processor_class": "Qwen3TTSProcessor"})
    _write_json(codec_folder / "config.json", CODEC_CONFIG)
    _write_json(codec_folder / "preprocessor_config.json", FEATURE_EXTRACTOR)
    _write_weights(folder / "model.safetensors", model)
    _write_weights(codec_folder / "model.safetensors", codec)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _write_weights(path: Path, model: torch.nn.Module) -> None:
    state = {name: tensor.detach().clone().contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, path, metadata={"format": "pt"})


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN
    for toy in TOYS:
        write_toy(toy, target)
        size = sum(path.stat().st_size for path in (target / toy.name).rglob("*") if path.is_file())
        print(f"{toy.name}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
