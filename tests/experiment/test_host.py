"""What a manifest says about the code that ran."""

from __future__ import annotations

from pathlib import Path

from ttsbench.experiment.host import code_revision, source_sha256


def test_the_source_hash_sees_every_python_file_and_nothing_else(tmp_path: Path) -> None:
    """Goes red when a changed, moved or new file leaves the hash as it was, or a cache or a data file alters it."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "inner" / "b.py").write_text("y = 1\n")
    seen = [source_sha256(tmp_path)]
    (tmp_path / "inner" / "b.pyc").write_bytes(b"\0")
    assert source_sha256(tmp_path) == seen[0]
    (tmp_path / "inner" / "b.py").write_text("y = 2\n")
    seen.append(source_sha256(tmp_path))
    (tmp_path / "inner" / "b.py").rename(tmp_path / "b.py")
    seen.append(source_sha256(tmp_path))
    (tmp_path / "c.py").touch()
    seen.append(source_sha256(tmp_path))
    assert len(set(seen)) == 4


def test_the_code_that_runs_is_hashed() -> None:
    """Goes red when the hash is of another folder than this package's."""
    import ttsbench

    assert code_revision().source_sha256 == source_sha256(Path(ttsbench.__file__).parent)
