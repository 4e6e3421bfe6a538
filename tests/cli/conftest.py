"""Checkpoints that end by themselves, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import BASE, CUSTOM_VOICE, terse


@pytest.fixture(scope="session")
def terse_custom_voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return terse(CUSTOM_VOICE, tmp_path_factory.mktemp("terse") / "custom-voice")


@pytest.fixture(scope="session")
def terse_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return terse(BASE, tmp_path_factory.mktemp("terse") / "base")
