"""Profiles as small files, and the faults found in them as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from ttsbench.core import InvalidInput
from ttsbench.profile import load_profile

Write = Callable[..., Path]
Faults = Callable[..., list[str]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a YAML file and return its path."""

    def write_file(text: str, name: str = "mine.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    """Load what must not load; one line for each fault, with the test's folder cut off."""

    def load_and_list(profile: str | Path, overrides: Mapping[str, str] | None = None) -> list[str]:
        with pytest.raises(InvalidInput) as caught:
            load_profile(profile, overrides)
        return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]

    return load_and_list
