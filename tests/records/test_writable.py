"""Whether results can be written is known before the work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ttsbench.records import unwritable


def test_a_folder_that_is_there_or_can_be_made_is_writable(tmp_path: Path) -> None:
    """Red when a folder must exist already, or looking leaves something behind."""
    assert unwritable(tmp_path) is None
    assert unwritable(tmp_path / "a" / "b") is None
    assert not list(tmp_path.iterdir())


def test_below_a_file_nothing_can_be_made(tmp_path: Path) -> None:
    """Red when the nearest thing above is not asked what it is."""
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "a" / "b"):
        assert unwritable(path) == f"{tmp_path / 'file'}, which is no folder"


def test_permission_is_asked_of_the_nearest_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when permission is not asked, or of the wrong folder. (The answer is given here: root may always write.)"""
    asked: list[tuple[object, int]] = []

    def refuse(path: object, mode: int) -> bool:
        asked.append((path, mode))
        return False

    monkeypatch.setattr(os, "access", refuse)
    assert unwritable(tmp_path / "new") == f"no permission to write into {tmp_path}"
    assert asked == [(tmp_path, os.W_OK | os.X_OK)]
