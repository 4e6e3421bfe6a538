"""Write the golden files under tests/golden/ from the toy checkpoints there.

    python scripts/oracle/make_goldens.py

Run after make_toys.py. `manifest.json` records what made them, and the hash of every checkpoint file they were made
from.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import platform
from typing import Any

import goldens_codec
import goldens_sampling
import goldens_talker
import official
from make_toys import GOLDEN
from safetensors.torch import save_file
from torch import Tensor
from toy_configs import TOYS

PACKAGES = ("qwen-tts", "transformers", "tokenizers", "torch", "numpy", "librosa", "safetensors")


def main() -> None:
    toys = {toy.name: official.load(GOLDEN / toy.name) for toy in TOYS}
    prompts, talker, cases = goldens_talker.prompts(toys)
    _save("prompts", prompts)
    _save("talker", talker)
    _write_json("cases", cases)
    for name in ("toy-custom-voice", "toy-custom-voice-0b6"):
        _save(f"predictor-{name}", goldens_talker.predictor(toys[name]))
    _save("sampling", goldens_sampling.sampling(toys["toy-custom-voice"]))
    _save("codec-decode", goldens_codec.decode(toys["toy-custom-voice"]))
    _save("codec-encode", goldens_codec.encode(toys["toy-base"]))
    _save("speaker", goldens_codec.speaker(toys["toy-base"]))
    _write_json("tokens", goldens_talker.tokens(toys["toy-custom-voice"], GOLDEN / "toy-custom-voice"))
    _write_json("manifest", _manifest())


def _save(name: str, tensors: dict[str, Tensor]) -> None:
    path = GOLDEN / f"{name}.safetensors"
    save_file({key: tensor.detach().clone().contiguous() for key, tensor in tensors.items()}, path)
    print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size / 1e6:.2f} MB")


def _write_json(name: str, value: Any) -> None:
    (GOLDEN / f"{name}.json").write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _manifest() -> dict[str, Any]:
    files = sorted(path for toy in TOYS for path in (GOLDEN / toy.name).rglob("*") if path.is_file())
    return {
        "made_on": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
        "checkpoint_sha256": {
            path.relative_to(GOLDEN).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        },
    }


if __name__ == "__main__":
    main()
