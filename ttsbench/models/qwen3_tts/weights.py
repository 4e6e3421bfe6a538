"""Strict loading: a checkpoint fits its model name by name and shape by shape, or one error lists all that does not.

Our modules carry the published tensor names, so there is no name map to get wrong. F32, BF16 and F16 files load into any
floating dtype; one file or shards with an index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from ttsbench.core import InvalidInput, Problem
from ttsbench.models.qwen3_tts.config import read_json

SINGLE_FILE = "model.safetensors"
SHARD_INDEX = "model.safetensors.index.json"
MAX_LISTED = 40
"""Faults of one kind spelled out in the error; the rest are counted."""


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder: one, or the shards its index names. Raises InvalidInput."""
    index, single = folder / SHARD_INDEX, folder / SINGLE_FILE
    if index.exists():
        files = sorted({folder / name for name in read_json(index)["weight_map"].values()})
    else:
        files = [single]
    missing = [Problem(str(f), "a safetensors file", "no file") for f in files if not f.exists()]
    if missing:
        raise InvalidInput(missing)
    return files


def read_tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Every (name, tensor) of a folder's weight files."""
    for path in weight_files(folder):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  (safe_open is no mapping)
                yield name, file.get_tensor(name)


def load_weights(module: nn.Module, folder: Path, device: torch.device, dtype: torch.dtype) -> None:
    """Fill `module` (built on the meta device) from `folder`; floating tensors become `dtype` on `device`.

    Raises InvalidInput naming every missing, unexpected and mis-shaped tensor.
    """
    tensors = dict(read_tensors(folder))
    expected = module.state_dict()
    problems = fit_problems(expected, tensors, str(folder))
    if problems:
        raise InvalidInput(problems)
    for name, tensor in tensors.items():
        wanted = dtype if expected[name].is_floating_point() else expected[name].dtype
        tensors[name] = tensor.to(device=device, dtype=wanted)
    module.load_state_dict(tensors, strict=True, assign=True)
    module.requires_grad_(False)


def fit_problems(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], where: str) -> list[Problem]:
    """One problem per kind of misfit, each listing its tensors."""
    missing = sorted(expected.keys() - found.keys())
    unexpected = sorted(found.keys() - expected.keys())
    shapes = [
        f"{name} {list(found[name].shape)} for {list(expected[name].shape)}"
        for name in sorted(expected.keys() & found.keys())
        if found[name].shape != expected[name].shape
    ]
    hint = "config.json and the weights must come from the same checkpoint"
    kinds = (("all tensors of the model", "missing", missing), ("no other tensors", "unexpected", unexpected))
    problems = [Problem(where, want, f"{len(n)} {word}: {_listed(n)}", hint) for want, word, n in kinds if n]
    if shapes:
        problems.append(Problem(where, "the config's shapes", f"{len(shapes)} mis-shaped: {_listed(shapes)}", hint))
    return problems


def _listed(names: list[str]) -> str:
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f", and {more} more" if more > 0 else "")
