"""Lists on disk, written by the test that reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

WriteList = Callable[..., Path]


@pytest.fixture
def write_list(tmp_path: Path) -> WriteList:
    """`write_list(line, ...)` or `write_list(data=bytes)` gives the path of a list, `en/meta.lst` unless named."""

    def write(*lines: str, data: bytes | None = None, name: str = "en/meta.lst") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes("".join(f"{line}\n" for line in lines).encode() if data is None else data)
        return path

    return write
