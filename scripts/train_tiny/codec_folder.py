"""The codec of a checkpoint as the pieces of a sitting, so that another talker can be trained for it.

    python -m scripts.train_tiny.codec_folder ttsbench/assets/tiny CODEC

Writes `codes.safetensors`, the fit beside this file, and the two networks of the checkpoint. Raises SystemExit
when the checkpoint's codebooks are not those of the fit: codes of one would be noise to the other.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file

from scripts.train_tiny.codes import Fit
from scripts.train_tiny.config import codec_modules, fill_codebooks
from scripts.train_tiny.corpus import save_tensors

FIT = Path(__file__).with_name("codes.safetensors")
HALF = 1e-3
"""Relative difference that rounding to half precision can make."""


def unpack(checkpoint: Path, out: Path) -> None:
    """Write the three files into `out`."""
    stored = load_file(checkpoint / "speech_tokenizer" / "model.safetensors")
    fit = Fit.load(FIT)
    _, decoder, encoder = codec_modules()
    out.mkdir(parents=True, exist_ok=True)
    for name, module in (("decoder", decoder), ("encoder", encoder)):
        weights = {key.removeprefix(f"{name}."): x.float() for key, x in stored.items() if key.startswith(f"{name}.")}
        module.load_state_dict(weights)
        books = {
            key: x.clone() for key, x in module.state_dict().items() if key.endswith(("embed_sum", "embedding_sum"))
        }
        fill_codebooks(module.quantizer, fit.books)
        for key, book in books.items():
            if not torch.allclose(book, module.state_dict()[key], rtol=HALF, atol=HALF):
                raise SystemExit(f"{checkpoint}: {name} {key} is not of the fit {FIT.name}")
        save_tensors(out / f"{name}.safetensors", dict(module.state_dict()))
    shutil.copy(FIT, out / FIT.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    unpack(args.checkpoint, args.out)


if __name__ == "__main__":
    main()
