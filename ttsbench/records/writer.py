"""Writing so that a kill, a full disk or a power cut loses at most the record being written.

Lines are appended with one write and one fsync each: when `append` returns, the record is on disk. A line without its
newline is torn; it is cut off when the file is opened again, and so never counted. Whole files are replaced by rename:
a reader sees the old file or the new one.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from ttsbench.records.base import Record

TAIL_BLOCK_BYTES = 1 << 16


class JsonlWriter:
    """Appends records to a JSON-lines file. One writer per file: a second one is refused while the first is open."""

    def __init__(self, path: Path) -> None:
        """Open or create `path` (its folder must exist), lock it and cut a torn last line."""
        self.path = path
        existed = path.exists()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            self._lock()
            self._size, self.torn_bytes_cut = _cut_torn_tail(self._fd)
            if not existed:
                _fsync_folder(path.parent)
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, record: Record) -> None:
        """Put one record on disk. An error (such as a full disk, or Ctrl-C) means that it is not there."""
        self.extend([record])

    def extend(self, records: Iterable[Record]) -> None:
        """Put several records on disk with a single fsync. An error means that none of them is there."""
        data = b"".join(record.model_dump_json().encode() + b"\n" for record in records)
        try:
            _write_all(self._fd, data)
            os.fsync(self._fd)
        except BaseException:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another process is writing this file", str(self.path)) from None


def write_atomic(path: Path, data: bytes) -> None:
    """Replace `path` by `data` as a whole. On any error the old file, or its absence, is left as it was.

    Raises OSError naming `path`, not the temporary file that the error was about.
    """
    try:
        _write_and_rename(path.parent / f".{secrets.token_hex(8)}.tmp", path, data)
        _fsync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_record(path: Path, record: Record) -> None:
    """Replace `path` by one record as indented JSON, as `write_atomic` does."""
    write_atomic(path, record.model_dump_json(indent=2).encode() + b"\n")


def _write_and_rename(temporary: Path, path: Path, data: bytes) -> None:
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _cut_torn_tail(fd: int) -> tuple[int, int]:
    """Drop what follows the last newline. Returns the size kept and the bytes cut."""
    size = os.fstat(fd).st_size
    kept = _end_of_last_line(fd, size)
    if kept < size:
        os.ftruncate(fd, kept)
        os.fsync(fd)
    return kept, size - kept


def _end_of_last_line(fd: int, size: int) -> int:
    end = size
    while end > 0:
        start = max(0, end - TAIL_BLOCK_BYTES)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _fsync_folder(folder: Path) -> None:
    """Make a new name in `folder` survive a power cut, as the file's own fsync does for its bytes."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
