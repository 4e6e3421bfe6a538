"""Where the profiles that come with the package are: beside the modules when installed, at the root of a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "profiles", _PACKAGE.parent / "profiles")


def shipped_profiles() -> dict[str, Path]:
    """Name to file, in order of name."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))} if folder else {}
