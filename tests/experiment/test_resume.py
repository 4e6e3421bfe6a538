"""What may go on, what is still open, and what has to go first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiment.engines import row
from tests.records.builders import PROFILE, manifest, request, request_without_audio
from ttsbench.corpus import Corpus
from ttsbench.corpus.layout import TWO_FIELDS
from ttsbench.experiment.resume import clear_unfinished, differences, open_jobs
from ttsbench.records import (
    JsonlWriter,
    RequestRecord,
    RowStatus,
    RunFolder,
    RunManifest,
    TraceRecord,
    canonical_sha256,
    combined_sha256,
    read_requests,
    read_trace,
    sha256_of,
)
from ttsbench.records.base import Sha256

CORPUS = Corpus(
    "mini",
    Path("meta.lst"),
    "en",
    TWO_FIELDS,
    sha256_of(b"list"),
    tuple(row(f"u{i}", "one two three") for i in range(4)),
)


def changed(**parts: object) -> RunManifest:
    """The builder's manifest with fields of its parts replaced: `settings={"seed": 1}`."""
    base = manifest()
    return base.revised(
        **{name: getattr(base, name).revised(**fields) for name, fields in parts.items()}  # type: ignore[arg-type]
    )


def where(now: RunManifest) -> list[str]:
    return [problem.where.removeprefix("run.json ") for problem in differences(manifest(), now)]


def test_every_difference_is_told() -> None:
    """Goes red when a setting, the list or the software may change unnoticed, or only the first difference is told."""
    other = {**PROFILE, "max_num_seqs": 3}
    now = changed(
        settings={"seed": 1, "max_frames": 10, "language": "english"},
        corpus={"sha256": sha256_of(b"another list")},
        code={"revision": "1" * 40, "source_sha256": sha256_of(b"other code")},
        hardware={"cpu_model": "another CPU"},
    ).revised(profile=other, profile_sha256=canonical_sha256(other), software={"python": "3.12"})
    assert set(where(now)) == {
        "settings.seed",
        "settings.max_frames",
        "settings.language",
        "corpus.sha256",
        "profile.max_num_seqs",
        "code.revision",
        "code.source_sha256",
        "software.python",
        "hardware.cpu_model",
    }


def test_a_package_that_is_gone_is_a_difference() -> None:
    """Goes red when only names that both manifests have are compared."""
    assert where(manifest(software={})) == ["software.python"]
    assert where(manifest(software={"python": "3.11", "torch": "2.13"})) == ["software.torch"]


def test_what_only_says_where_things_lie_may_change() -> None:
    """Goes red when a run that was moved, with its list and checkpoint, cannot go on."""
    now = changed(
        corpus={"path": "elsewhere/meta.lst", "name": "other"},
        checkpoint={"name": "copy", "source": "a copy"},
        engine={"model": "a copy"},
        code={"dirty": True},
    )
    assert where(now) == []


def test_another_checkpoint_is_one_difference_and_the_hint_comes_last() -> None:
    """Goes red when every file of a checkpoint is listed beside their hash, or every line repeats what to do."""
    files: dict[str, Sha256] = {f"part-{i}.safetensors": sha256_of(b"other weights") for i in range(4)}
    now = changed(checkpoint={"files": files, "sha256": combined_sha256(files)}, settings={"seed": 1})
    assert where(now) == ["checkpoint.sha256", "settings.seed"]
    assert [bool(problem.hint) for problem in differences(manifest(), now)] == [False, True]


def log_of(tmp_path: Path, *records: RequestRecord) -> Path:
    with JsonlWriter(tmp_path / "requests.jsonl") as writer:
        writer.extend(records)
    return tmp_path


def test_cancelled_rows_are_open_and_failed_ones_are_not(tmp_path: Path) -> None:
    """Goes red when a failed row is quietly tried again, a cancelled one is lost, or an attempt number comes twice."""
    log_of(
        tmp_path,
        request(0),
        request_without_audio(1, RowStatus.CANCELLED),
        request_without_audio(1, RowStatus.CANCELLED, attempt=2, request_id="r1b"),
        request_without_audio(2, RowStatus.FAILED),
    )
    jobs = open_jobs(CORPUS, read_requests(tmp_path))
    assert [(job.index, job.row.utterance_id, job.attempt) for job in jobs] == [(1, "u1", 3), (3, "u3", 1)]


def trace(row_index: int, index: int = 0, attempt: int = 1) -> TraceRecord:
    return TraceRecord(
        row_index=row_index,
        utterance_id=f"u{row_index}",
        attempt=attempt,
        index=index,
        emitted_at_ns=1,
        start_frame=index,
        end_frame=index + 1,
        context_frames=0,
        chunk_target=1,
        samples=1920,
        sample_rate_hz=24_000,
        terminal=False,
        reason=None,
        reason_missing="not told",
        finish_reason=None,
    )


@pytest.mark.parametrize("torn", [b"", b'{"schema_version":1,"kind":"trace","row_ind'])
def test_leftovers_of_open_rows_go_and_nothing_else(tmp_path: Path, torn: bytes) -> None:
    """Goes red when half a file, an orphan WAV or orphan trace lines stay, or when a finished row loses its own."""
    folder = RunFolder(log_of(tmp_path, request(0), request_without_audio(1, RowStatus.CANCELLED)))
    folder.wav.mkdir()
    for name in ("u0.wav", "u3.wav", ".0123456789abcdef.tmp"):
        (folder.wav / name).write_bytes(b"RIFF")
    (tmp_path / ".fedcba9876543210.tmp").write_bytes(b"{")
    with JsonlWriter(folder.trace) as writer:
        writer.extend([trace(0), trace(0, 1), trace(1), trace(3), trace(3, 1), trace(1, attempt=2)])
    with folder.trace.open("ab") as file:
        file.write(torn)
    log = read_requests(tmp_path)
    clear_unfinished(folder, open_jobs(CORPUS, log), log)
    assert [path.name for path in folder.wav.iterdir()] == ["u0.wav"]
    assert not list(tmp_path.glob(".*"))
    lines = read_trace(tmp_path)
    assert [(line.row_index, line.index, line.attempt) for line in lines.records] == [(0, 0, 1), (0, 1, 1), (1, 0, 1)]
    assert lines.torn_bytes == 0


def test_a_smaller_set_is_a_difference_too() -> None:
    """Goes red when a run of all rows could go on as a run of the first few."""
    few = manifest(rows=2, corpus=manifest().corpus.revised(selection="the first 2", rows_in_list=9))
    assert where(few) == ["corpus.rows_in_list", "corpus.selection"]
