"""Where a recogniser's package and weights lie on this machine. Nothing is downloaded: what is absent is an error.

A model folder is looked for as a path, then as TTSBENCH_MODELS/<hub id>, then in the hub's own cache.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from pathlib import Path

from ttsbench.core import InvalidInput, Problem

MODELS_VARIABLE = "TTSBENCH_MODELS"
"""Environment variable: a folder of model folders, each under its hub id (`openai/whisper-large-v3`)."""


def models_folder() -> Path | None:
    """The user's own folder of models, if one is named."""
    folder = os.environ.get(MODELS_VARIABLE)
    return Path(folder).expanduser() if folder else None


def find_model(model: str, revision: str | None) -> Path:
    """The folder of a model given as a path or as a hub id at a revision. Raises InvalidInput."""
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if (models := models_folder()) is not None and (models / model).is_dir():
        return models / model
    if path.is_absolute() or model.count("/") != 1:
        raise InvalidInput(Problem("recogniser", "a model folder, or a hub id such as owner/name", repr(model)))
    return _in_hub_cache(model, revision)


def _in_hub_cache(model: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, revision=revision, local_files_only=True))
    except Exception as error:  # each release of the library has another error for "not there"
        at = f" --revision {revision}" if revision else ""
        hint = f"hf download {model}{at}, or set {MODELS_VARIABLE} to a folder that holds {model}"
        got = f"{type(error).__name__}: it is not on this machine"
        raise InvalidInput(Problem(f"weights of {model}", "a model folder on this machine", got, hint)) from error


def hash_folder(folder: Path, weights: str, *others: str) -> dict[str, str]:
    """SHA-256 of the files with these suffixes, by path inside the folder.

    Raises InvalidInput where there are no `weights`: the hub keeps the folder of a download that was broken off.
    """
    wanted = {weights, *others}
    names = sorted(path for path in folder.rglob("[!.]*") if path.suffix in wanted and path.is_file())
    if not any(path.suffix == weights for path in names):
        raise InvalidInput(Problem(str(folder), f"weights ({weights})", "none", "download the model again"))
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in names}


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def package_versions(*packages: str) -> dict[str, str]:
    """Versions by distribution name. Raises InvalidInput that names every one that is missing."""
    versions, problems = {}, []
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            problems.append(missing_package(name, "not installed"))
    if problems:
        raise InvalidInput(problems)
    return versions


def missing_package(name: str, got: str) -> Problem:
    return Problem("recogniser", f"the package {name}", got, f"pip install {name}")
