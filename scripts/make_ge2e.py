"""Remake `ttsbench/assets/ge2e` from the wheel of Resemblyzer 0.1.4.

    pip download --no-deps Resemblyzer==0.1.4
    python -m scripts.make_ge2e Resemblyzer-0.1.4-py3-none-any.whl

Keeps the network's tensors, in half precision (what that costs is printed: the largest error of a weight, and how far
the vector of the check signal turns), leaves out the optimizer and the loss' own scale and offset, and copies the
licence. The file is the same byte for byte wherever it is made; its hash stands in `ttsbench/score/speaker/ge2e.py`.
"""

from __future__ import annotations

import argparse
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from ttsbench.assets import asset_folder
from ttsbench.records import sha256_of
from ttsbench.score.speaker import ge2e

WHEEL_SHA256 = "8f12eb2f1a9982d32e8db7856de754709b59c93a77bcf0ff536584b619a9dd1f"
ORIGINAL_SHA256 = "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e"


def read_wheel(wheel: Path) -> tuple[dict[str, torch.Tensor], bytes]:
    """The network's tensors in single precision, and the licence. Raises ValueError for any other file."""
    data = wheel.read_bytes()
    if sha256_of(data) != WHEEL_SHA256:
        raise ValueError(f"{wheel} is not the wheel of Resemblyzer 0.1.4: sha256 is not {WHEEL_SHA256}")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        original = archive.read("resemblyzer/pretrained.pt")
        licence = archive.read("Resemblyzer-0.1.4.dist-info/LICENSE")
    if sha256_of(original) != ORIGINAL_SHA256:
        raise ValueError(f"pretrained.pt in {wheel}: sha256 is not {ORIGINAL_SHA256}")
    state = torch.load(io.BytesIO(original), map_location="cpu", weights_only=True)["model_state"]
    return {name: tensor for name, tensor in state.items() if name.startswith(("lstm.", "linear."))}, licence


def vector_of(weights: dict[str, torch.Tensor]) -> np.ndarray:
    """What these weights make of the check signal [D]."""
    return ge2e.Ge2eEncoder(weights).embed(ge2e.check_signal())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--out", type=Path, default=asset_folder("ge2e"))
    asked = parser.parse_args()
    full, licence = read_wheel(asked.wheel)
    half = {name: tensor.half() for name, tensor in full.items()}
    data = safetensors.torch.save(half)
    vector = vector_of(half)
    (asked.out / ge2e.WEIGHTS).write_bytes(data)
    (asked.out / ge2e.CHECK).write_text(json.dumps([round(float(x), 6) for x in vector]) + "\n")
    (asked.out / "LICENSE").write_bytes(licence)
    error = max(float((full[name] - half[name].float()).abs().max()) for name in full)
    print(f"{ge2e.WEIGHTS}: {len(data)} bytes, sha256 {sha256_of(data)}")
    print(f"half precision: weights {error:.1e} at most, cosine of the check signal {vector @ vector_of(full):.8f}")


if __name__ == "__main__":
    main()
