"""Fit the codebooks to synthesised speech and say how good they are, before anything is trained on them.

    python -m scripts.train_tiny.fit_codes --scratch SCRATCH --kinds named many --out RUN/codes.safetensors

Prints, and writes to `codes.json` beside the fit, for sentences and voices held out of it: how much power each
acoustic level leaves (the number to trust; perplexity can look fine while a level does nothing), the perplexity of
every book, and how often the commonest phoneme of a code of book 0, and of the plain book 1, is right. All kinds count
alike.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scripts.train_tiny.codes import MIDDLE, SOUNDLESS, Fit, encode, fit
from scripts.train_tiny.config import CODEBOOK_SIZE
from scripts.train_tiny.corpus import load_shard, shards
from scripts.train_tiny.features import shard_features

FRAMES = 600_000
SHARDS = 16
"""Shards read of each kind, evenly spread. More would only take longer to read."""


def gather(
    folder: Path, kinds: Sequence[str], count: int, device: torch.device, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Features [N, FEATURES] and labels [N, 4] of about `count` frames, and which of them are held out [N]."""
    found = {kind: shards(folder, kind) for kind in kinds}
    pieces = []
    for paths in found.values():
        chosen = paths[:: -(-len(paths) // SHARDS)]
        for path in chosen:
            shard = load_shard(path, device)
            held = shard.held_frames()
            share = count // (len(found) * len(chosen))
            rows = torch.randperm(len(held), generator=generator, device=device)[:share]
            pieces.append((shard_features(shard)[rows], shard.labels[rows], held[rows]))
    if not pieces:
        raise SystemExit(f"no shards of {', '.join(kinds)} in {folder}: run the teacher first")
    features, labels, held = (torch.cat(column) for column in zip(*pieces, strict=True))
    return features, labels, held


def left_power(fit: Fit, features: Tensor, codes: Tensor) -> list[float]:
    """Part of the acoustic view's power that is left after each acoustic level."""
    left = fit.acoustic(features)
    total = left.square().sum()
    parts = []
    for level in range(1, codes.shape[1]):
        left = left - fit.books[level][codes[:, level].long()]
        parts.append(round(float(left.square().sum() / total), 4))
    return parts


def perplexity(codes: Tensor) -> list[float]:
    """exp of the entropy of each column of `codes` [N, Q]."""
    counts = [torch.bincount(column.long(), minlength=CODEBOOK_SIZE) for column in codes.T]
    shares = torch.stack(counts).double() / len(codes)
    return [round(float(p), 1) for p in torch.special.entr(shares).sum(1).exp()]


def phonemes_told(codes: Tensor, labels: Tensor, known_codes: Tensor, known_labels: Tensor) -> float:
    """Part of the frames whose middle phoneme is the commonest one of their code [N] among the known frames.

    Frames in a symbol without a sound of its own do not count.
    """
    code, phoneme = _sounding(known_codes, known_labels)
    commonest = torch.bincount(code * 256 + phoneme, minlength=CODEBOOK_SIZE * 256).view(CODEBOOK_SIZE, 256).argmax(1)
    code, phoneme = _sounding(codes, labels)
    return round(float((commonest[code] == phoneme).float().mean()), 4)


def _sounding(codes: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    phonemes = labels[:, MIDDLE.stop - 1].long()
    sounding = ~torch.isin(phonemes, torch.tensor(SOUNDLESS, device=labels.device))
    return codes[sounding].long(), phonemes[sounding]


def figures(fit: Fit, features: Tensor, labels: Tensor, known: tuple[Tensor, Tensor]) -> dict[str, Any]:
    """What the module's docstring names, for these frames; `known` are codes and labels of the fitted ones."""
    codes = encode(fit, features)
    view = fit.acoustic(features)
    kept = 1 - (fit.features(view) - features).square().sum() / (features - fit.mean).square().sum()
    told = [phonemes_told(codes[:, book], labels, known[0][:, book], known[1]) for book in (0, 1)]
    return {
        "frames": len(features),
        "power_kept_by_the_view": round(float(kept), 4),
        "power_left_by_level": left_power(fit, features, codes),
        "perplexity": perplexity(codes),
        "phonemes_told_by_book_0": told[0],
        "phonemes_told_by_book_1": told[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="folder of the shards")
    parser.add_argument("--kinds", nargs="+", default=["named", "many"])
    parser.add_argument("--out", type=Path, required=True, help="the fit, a safetensors file")
    parser.add_argument("--frames", type=int, default=FRAMES)
    arguments = parser.parse_args()
    if arguments.out.exists():
        print(f"{arguments.out} exists: codes of another fit would not fit it, nothing done")
        return
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device).manual_seed(0)
    features, labels, held = gather(arguments.scratch, arguments.kinds, arguments.frames, device, generator)
    fitted = fit(features[~held], labels[~held], generator)
    known = encode(fitted, features[~held]), labels[~held]
    report = {"fitted": figures(fitted, features[~held], labels[~held], known)}
    if held.any():
        report["held_out"] = figures(fitted, features[held], labels[held], known)
    print(json.dumps(report, indent=1))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    fitted.save(arguments.out)


if __name__ == "__main__":
    main()
