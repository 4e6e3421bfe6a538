"""Strict loading: a checkpoint fits its model name by name and shape by shape, or one error lists all that does not.

Our modules carry the published tensor names, so there is no name map to get wrong. F32, BF16 and F16 files load into
any floating dtype; one file or shards with an index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from ttsbench.core import InvalidInput, Problem
from ttsbench.models.qwen3_tts.config import Fields, read_json

SINGLE_FILE = "model.safetensors"
SHARD_INDEX = "model.safetensors.index.json"
LOADABLE_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
MAX_LISTED = 40
"""Faults of one kind spelled out in the error; the rest are counted."""


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder: one, or the shards its index names. Raises InvalidInput."""
    index, single = folder / SHARD_INDEX, folder / SINGLE_FILE
    if index.exists():
        fields = Fields(read_json(index), str(index))
        shards = fields.get("weight_map", dict).values()
        fields.raise_problems()
        files = sorted({folder / str(name) for name in shards})
    else:
        files = [single]
    missing = [Problem(str(f), "a safetensors file", "no file") for f in files if not f.exists()]
    if missing:
        raise InvalidInput(missing)
    return files


def read_tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Every (name, tensor) of a folder's weight files. Raises InvalidInput for one cut short or of another format."""
    for path in weight_files(folder):
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118  (safe_open is no mapping)
                    yield name, file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            got = f"{path.stat().st_size} bytes: {error}"
            raise InvalidInput(Problem(str(path), "a whole safetensors file", got, "download it again")) from error


def load_weights(module: nn.Module, folder: Path, device: torch.device, dtype: torch.dtype) -> None:
    """Fill `module` (built on the meta device) from `folder`; floating tensors become `dtype` on `device`.

    Raises InvalidInput naming every missing, unexpected, mis-shaped and repeated tensor.
    """
    tensors: dict[str, Tensor] = {}
    repeated = []
    for name, tensor in read_tensors(folder):
        if name in tensors:
            repeated.append(name)
        tensors[name] = tensor
    expected = module.state_dict()
    problems = fit_problems(expected, tensors, str(folder))
    if repeated:
        got = f"{len(repeated)} in several shards: {_listed(repeated)}"
        problems.append(Problem(str(folder), "each tensor once", got, "download the checkpoint again"))
    if problems:
        raise InvalidInput(problems)
    for name, tensor in tensors.items():
        wanted = dtype if expected[name].is_floating_point() else tensor.dtype
        tensors[name] = tensor.to(device=device, dtype=wanted)
    module.load_state_dict(tensors, strict=True, assign=True)
    module.requires_grad_(False)


def fit_problems(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], where: str) -> list[Problem]:
    """One problem per kind of misfit, each listing its tensors."""
    pairs = [(name, found[name], expected[name]) for name in sorted(expected.keys() & found.keys())]
    shapes = [f"{n} {[*f.shape]} for {[*e.shape]}" for n, f, e in pairs if f.shape != e.shape]
    kinds = [f"{n} {f.dtype} for {e.dtype}" for n, f, e in pairs if _kind(f) != _kind(e)]
    misfits = (
        ("all tensors of the model", "missing", sorted(expected.keys() - found.keys())),
        ("no other tensors", "unexpected", sorted(found.keys() - expected.keys())),
        ("the config's shapes", "mis-shaped", shapes),
        ("the model's kind of number", "mistyped", kinds),
    )
    hint = "config.json and the weights must come from the same checkpoint"
    return [Problem(where, want, f"{len(n)} {word}: {_listed(n)}", hint) for want, word, n in misfits if n]


def _kind(tensor: Tensor) -> torch.dtype:
    """F32, BF16 and F16 stand for each other; any other dtype, quantised integers above all, for itself alone."""
    return torch.float32 if tensor.dtype in LOADABLE_FLOATS else tensor.dtype


def _listed(names: list[str]) -> str:
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f", and {more} more" if more > 0 else "")
