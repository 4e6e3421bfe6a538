"""Where a checkpoint comes from: the embedded one, a local folder, or a hub id."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ttsbench.assets import asset_folder
from ttsbench.core import InvalidInput, Problem

EMBEDDED = ("tiny", "tiny-base")
"""Checkpoints shipped in the package."""


def resolve_checkpoint(name: str) -> Path:
    """The folder of an embedded name, a path, or a hub id ("owner/name", downloaded once). Raises InvalidInput."""
    if name in EMBEDDED:
        return asset_folder(name)
    path = os.path.expanduser(name)
    if os.path.isdir(path):
        return Path(path)
    if os.path.exists(path) or name.startswith((".", "/", "~")) or name.count("/") != 1:
        hint = f"give a checkpoint folder, a hub id like Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice, or {', '.join(EMBEDDED)}"
        raise InvalidInput(Problem("model", "a checkpoint folder", repr(name), hint))
    return _from_hub(name)


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name))
    except Exception as error:  # each release of the library lets another network library's errors through
        got = f"{type(error).__name__}: {error}".splitlines()[0]
        hint = "check the id and the network, or give the path of a downloaded folder"
        raise InvalidInput(
            Problem(f"model {name!r}", "a folder, or a hub id that can be downloaded", got, hint)
        ) from error


def checkpoint_hashes(folder: Path) -> dict[str, str]:
    """sha256 of every file that shapes the output (configs, tokenizer, weights), by path inside the folder."""
    names = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in {".json", ".txt", ".safetensors"})
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in names}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
