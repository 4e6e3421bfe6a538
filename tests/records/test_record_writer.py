"""What is on disk after a kill, a full disk, or a second writer."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.records.builders import request
from ttsbench.records import JsonlWriter, RequestRecord, read_jsonl, write_atomic, write_record
from ttsbench.records.writer import TAIL_BLOCK_BYTES

ROOT = Path(__file__).parents[2]

WRITE_FOR_EVER = """
import itertools, sys
from pathlib import Path
from tests.records.builders import request
from ttsbench.records import JsonlWriter
with JsonlWriter(Path(sys.argv[1])) as writer:
    for index in itertools.count():
        writer.append(request(index))
        print(index, flush=True)
"""


@contextmanager
def largest_file(limit: int) -> Iterator[None]:
    """Let this process write files up to `limit` bytes: past that, a write is cut short and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_every_acknowledged_record_survives_kill_9(tmp_path: Path) -> None:
    """Red when lines wait in a buffer of the process (try collecting them in a list until `close`)."""
    path = tmp_path / "requests.jsonl"
    command = [sys.executable, "-c", WRITE_FOR_EVER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(20)]
        child.send_signal(signal.SIGKILL)
    kept = read_jsonl(path, RequestRecord).records
    assert [record.row_index for record in kept][:20] == acknowledged
    with JsonlWriter(path) as writer:
        writer.append(request(len(kept)))
    assert [record.row_index for record in read_jsonl(path, RequestRecord).records] == list(range(len(kept) + 1))


def test_each_append_reaches_the_disk_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut cannot be tried, so the call that guards against it is counted: red when the fsync goes."""
    synced: list[int] = []
    with JsonlWriter(tmp_path / "requests.jsonl") as writer:
        monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
        writer.append(request(0))
        writer.append(request(1))
        writer.extend([request(2), request(3)])
    size = (tmp_path / "requests.jsonl").stat().st_size
    assert len(synced) == 3
    assert synced[-1] == size


@pytest.mark.parametrize("torn", [b'{"schema_version":1,"ki', b"x" * (2 * TAIL_BLOCK_BYTES + 5), b"{}", b"\0\0\0"])
def test_a_torn_last_line_is_cut_and_the_others_are_untouched(tmp_path: Path, torn: bytes) -> None:
    """Red when the tail is kept (the next record would be glued to it), or when whole lines are rewritten or lost."""
    path = tmp_path / "requests.jsonl"
    with JsonlWriter(path) as writer:
        writer.extend([request(0), request(1)])
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    with JsonlWriter(path) as writer:
        assert writer.torn_bytes_cut == len(torn)
        assert path.read_bytes() == whole
        writer.append(request(2))
    assert path.read_bytes().startswith(whole)
    assert [record.row_index for record in read_jsonl(path, RequestRecord).records] == [0, 1, 2]


def test_a_file_that_is_one_torn_line_becomes_empty(tmp_path: Path) -> None:
    """Red when the search for the last newline stops short of the file's start."""
    path = tmp_path / "requests.jsonl"
    path.write_bytes(b'{"half')
    with JsonlWriter(path) as writer:
        assert writer.torn_bytes_cut == 6
    assert path.read_bytes() == b""


def test_a_full_disk_is_an_error_and_leaves_no_half_record(tmp_path: Path) -> None:
    """Red when the error is swallowed, or the part that still fitted stays in the file."""
    path = tmp_path / "requests.jsonl"
    with JsonlWriter(path) as writer:
        writer.append(request(0))
        whole = path.read_bytes()
        with largest_file(len(whole) + 100), pytest.raises(OSError, match="File too large"):
            writer.append(request(1))
        assert path.read_bytes() == whole
        writer.append(request(1))
    assert [record.row_index for record in read_jsonl(path, RequestRecord).records] == [0, 1]


def test_an_interrupt_between_write_and_fsync_leaves_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C: the caller saw an error, so the record must not be there, or a resumed run would write it twice."""

    def interrupted(fd: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "requests.jsonl"
    with JsonlWriter(path) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", interrupted)
            with pytest.raises(KeyboardInterrupt):
                writer.append(request(0))
        writer.append(request(0))
    assert len(read_jsonl(path, RequestRecord).records) == 1


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    """Red without the lock: the second one would cut a line that the first is still writing."""
    path = tmp_path / "requests.jsonl"
    with JsonlWriter(path), pytest.raises(BlockingIOError, match="another process is writing this file"):
        JsonlWriter(path)
    with JsonlWriter(path) as writer:
        writer.append(request(0))


def test_an_atomic_write_replaces_all_or_nothing(tmp_path: Path) -> None:
    """Red when the file is written in place, or when a failed write leaves its temporary file behind."""
    path = tmp_path / "run.json"
    write_atomic(path, b"old")
    with largest_file(1000), pytest.raises(OSError, match="File too large"):
        write_atomic(path, b"n" * 5000)
    assert path.read_bytes() == b"old"
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


def test_an_atomic_write_syncs_before_it_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the rename comes first: after a power cut the new name could hold nothing."""
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(fd: int) -> None:
        done.append("fsync")
        fsync(fd)

    def note_replace(source: Path, target: Path) -> None:
        done.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_record(tmp_path / "row.json", request())
    assert done == ["fsync", "replace", "fsync"]


def test_an_atomic_write_follows_the_umask(tmp_path: Path) -> None:
    """Red when results are readable by their owner only, as mkstemp would make them."""
    previous = os.umask(0o022)
    try:
        write_atomic(tmp_path / "run.json", b"x")
    finally:
        os.umask(previous)
    assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o644


def test_an_error_names_the_file_that_was_to_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when people are told about a hidden temporary file that they never asked for."""
    for path in (tmp_path / "nowhere" / "a.wav", tmp_path):
        with pytest.raises(OSError, match=str(path)) as caught:
            write_atomic(path, b"x")
        assert caught.value.filename == str(path)
        assert ".tmp" not in str(caught.value)
    assert not list(tmp_path.iterdir())
