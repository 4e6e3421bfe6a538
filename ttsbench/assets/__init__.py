"""Data that ships inside the package, found through `importlib.resources`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def asset_folder(name: str) -> Path:
    """Folder of the bundled asset `name`. Raises FileNotFoundError where the installation lacks it."""
    folder = Path(str(files(__name__).joinpath(name)))
    if not folder.is_dir():
        raise FileNotFoundError(f"bundled asset {name!r} is not at {folder}; the installation is incomplete")
    return folder
