"""Transcripts that outlive the process that made them: whole or not there, never wrong."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from ttsbench.core import InvalidInput
from ttsbench.records import RecordError, sha256_of
from ttsbench.score.transcripts import TranscriptCache, read_transcripts

EAR = "e" * 64
WAVS = [sha256_of(bytes([n])) for n in range(20)]
SPAWN = multiprocessing.get_context("spawn")
LINES = 200
"""Enough for two writers to meet."""


def test_what_was_kept_is_read_back(tmp_path: Path) -> None:
    """Red when an empty transcript reads as none, or white space and Chinese do not come back as they were."""
    texts = dict(zip(WAVS, ["", " One, two. ", "你好", "a\nb"], strict=False))
    known = TranscriptCache(tmp_path).of(EAR)
    for wav, text in texts.items():
        known.add(wav, text)
    again = TranscriptCache(tmp_path).of(EAR)
    assert {wav: again.get(wav) for wav in texts} == texts
    assert again.get(WAVS[10]) is None
    assert TranscriptCache(tmp_path).of("f" * 64).get(WAVS[0]) is None, "another recogniser's words"


def test_the_place_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the variables are looked at in another order, or an empty one counts as set."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("TTSBENCH_CACHE", "")
    assert TranscriptCache.default().folder == tmp_path / "home" / ".cache" / "ttsbench" / "transcripts"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert TranscriptCache.default().folder == tmp_path / "xdg" / "ttsbench" / "transcripts"
    monkeypatch.setenv("TTSBENCH_CACHE", str(tmp_path / "own"))
    assert TranscriptCache.default().folder == tmp_path / "own" / "transcripts"


def test_the_first_failure_on_each_file_is_kept(tmp_path: Path) -> None:
    """Red when a later error hides the first, or failures are another recogniser's or stand among the transcripts."""
    cache = TranscriptCache(tmp_path)
    for wav, error in ((WAVS[0], "no answer"), (WAVS[1], "out of memory"), (WAVS[0], "again")):
        cache.failures_of(EAR).add(wav, error)
    assert cache.failures_of(EAR).errors == {WAVS[0]: "no answer", WAVS[1]: "out of memory"}
    assert cache.failures_of("f" * 64).errors == {}
    assert cache.of(EAR).get(WAVS[0]) is None


@pytest.mark.parametrize("at", [0, 30, -3])
def test_a_damaged_line_is_an_error_with_its_place(tmp_path: Path, at: int) -> None:
    """One byte changed at the start, inside the audio's hash, or in the line's own hash: red when it is believed."""
    known = TranscriptCache(tmp_path).of(EAR)
    for n in range(3):
        known.add(WAVS[n], "one two three")
    path = tmp_path / f"{EAR}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:at] + b"#" + lines[1][at:][1:]
    path.write_bytes(b"".join(lines))
    with pytest.raises(RecordError, match=rf"{EAR}\.jsonl, line 2"):
        TranscriptCache(tmp_path).of(EAR)


def test_another_word_in_a_line_is_an_error(tmp_path: Path) -> None:
    """Valid JSON, valid fields, one letter of the transcript changed. Red when lines carry no hash of their own."""
    TranscriptCache(tmp_path).of(EAR).add(WAVS[0], "one two three")
    path = tmp_path / f"{EAR}.jsonl"
    path.write_bytes(path.read_bytes().replace(b"three", b"tree"))
    with pytest.raises(RecordError, match=r"line 1: .*damaged"):
        read_transcripts(path)


def test_a_torn_last_line_is_not_a_line_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    """Red when the remains of a killed process are an error, or the next line is glued to them."""
    TranscriptCache(tmp_path).of(EAR).add(WAVS[0], "one")
    path = tmp_path / f"{EAR}.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])
    known = TranscriptCache(tmp_path).of(EAR)
    assert (known.get(WAVS[0]), known.get(WAVS[1])) == ("one", None)
    known.add(WAVS[1], "two")
    assert read_transcripts(path) == {WAVS[0]: "one", WAVS[1]: "two"}


def test_the_first_of_two_hearings_counts(tmp_path: Path) -> None:
    """Two processes heard one file before either knew of the other. Red when the text depends on who reads when."""
    cache = TranscriptCache(tmp_path)
    one, other = cache.of(EAR), cache.of(EAR)
    one.add(WAVS[0], "one")
    other.add(WAVS[0], "other")
    assert cache.of(EAR).get(WAVS[0]) == "one"


def _add_all(folder: Path, mark: str, start: Barrier) -> None:
    known = TranscriptCache(folder).of(EAR)
    start.wait(timeout=60)
    for n in range(LINES):
        known.add(sha256_of(f"{n}{mark}".encode()), mark * 500)


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    """Red when lines mix or get lost, or the second writer is refused while the first is at it."""
    start = SPAWN.Barrier(2)
    processes = [SPAWN.Process(target=_add_all, args=(tmp_path, mark, start)) for mark in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=60)
    assert [process.exitcode for process in processes] == [0, 0]
    texts = read_transcripts(tmp_path / f"{EAR}.jsonl")
    assert texts == {sha256_of(f"{n}{mark}".encode()): mark * 500 for n in range(LINES) for mark in "ab"}


def _add_and_die(folder: Path) -> None:
    known = TranscriptCache(folder).of(EAR)
    known.add(WAVS[0], "one")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_leaves_what_it_heard_and_no_lock(tmp_path: Path) -> None:
    """Red when lines are buffered until the end, or a lock outlives its owner."""
    process = SPAWN.Process(target=_add_and_die, args=(tmp_path,))
    process.start()
    process.join(timeout=60)
    assert process.exitcode == -signal.SIGKILL
    known = TranscriptCache(tmp_path).of(EAR)
    assert known.get(WAVS[0]) == "one"
    known.add(WAVS[1], "two")


def test_a_place_that_cannot_be_written_to_is_refused_before_any_work(tmp_path: Path) -> None:
    """Red when the first transcript, minutes later, is what finds out."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="set TTSBENCH_CACHE"):
        TranscriptCache(tmp_path / "file" / "transcripts").of(EAR)
