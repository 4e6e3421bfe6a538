"""From a name or a file to a checked profile: base files first, overlays on them, the command line on top.

Every fault of every layer is found before the one `InvalidInput` is raised, so a profile is mended in one pass.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ttsbench.core import InvalidInput, Problem
from ttsbench.profile.conflicts import find_conflicts
from ttsbench.profile.layer import BASE_CONFIG, Layer, read_document, read_overrides, unreadable_layer
from ttsbench.profile.shipped import shipped_profiles
from ttsbench.profile.types import KEYS, SECTIONS, Profile


def load_profile(name_or_path: str | Path, overrides: Mapping[str, str] | None = None) -> Profile:
    """Read a shipped profile by its bare name, or a `.yaml` file by its path, and lay `overrides` on it.

    `overrides` maps dotted keys (`max_num_seqs`, `default_sampling_params.temperature`) to YAML values. Raises
    `InvalidInput` with every unknown key, wrong type, missing file, duplicate key and conflict found.
    """
    problems: list[Problem] = []
    path = find_profile(name_or_path, problems)
    merged = read_file(path, problems) if path else unreadable_layer()
    merged.lay(read_overrides(overrides or {}, problems))
    problems += _missing_keys(merged, str(path))
    problems += find_conflicts(merged)
    if problems or path is None:
        raise InvalidInput(problems)
    return _build(path.stem, merged)


def find_profile(name_or_path: str | Path, problems: list[Problem]) -> Path | None:
    """The file meant; a bare name means a shipped profile, anything with a folder or an ending is a path."""
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") or path.name != str(name_or_path):
        return path
    shipped = shipped_profiles()
    if path.name not in shipped:
        close = difflib.get_close_matches(path.name, shipped, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "a file of your own needs its ending, .yaml"
        expected = f"a shipped profile ({', '.join(shipped)})"
        problems.append(Problem("profile", expected, repr(path.name), hint))
    return shipped.get(path.name)


def read_file(path: Path, problems: list[Problem], named_at: str = "profile", chain: tuple[Path, ...] = ()) -> Layer:
    """The layer of `path` on top of its bases; `named_at` is the place that names the file, `chain` the files above."""
    if path.resolve() in chain:
        loop = " -> ".join(file.name for file in (*chain, path))
        problems.append(Problem(named_at, f"a {BASE_CONFIG} that does not lead back to itself", loop))
        return unreadable_layer()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "bytes that are not UTF-8"
        problems.append(Problem(named_at, "a readable profile file", f"{path}: {reason}", _nearest_file(path)))
        return unreadable_layer()
    layer = read_document(text, str(path), problems)
    if layer.base is None:
        return layer
    base = path.parent / str(layer.base.value)
    merged = read_file(base, problems, f"{layer.base.origin} {BASE_CONFIG}", (*chain, path.resolve()))
    merged.lay(layer)
    return merged


def _nearest_file(path: Path) -> str:
    others = [file.name for file in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, others, n=1)
    return f"did you mean {str(path.parent / close[0])!r}?" if close and close[0] != path.name else ""


def _missing_keys(merged: Layer, source: str) -> list[Problem]:
    missing = [
        name for name, key in KEYS.items() if key.required and name not in merged.settings.keys() | merged.faulty
    ]
    return [Problem(f"{source} {name}", KEYS[name].rule.expected, "no such key", f"add {name}:") for name in missing]


def _build(name: str, merged: Layer) -> Profile:
    """Sections become their own dataclasses; keys that nobody set keep the default of their field."""
    flat: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for key, setting in merged.settings.items():
        section, _, leaf = key.rpartition(".")
        (sections[section] if section else flat)[leaf] = setting.value
    flat |= {section: cls(**sections[section]) for section, cls in SECTIONS.items()}
    return Profile(name=name, **flat)
