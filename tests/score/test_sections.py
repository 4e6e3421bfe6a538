"""Sections of scores.json: made when something has changed, and only then; never one at the cost of another."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from tests.score.runs import spoken, write_run
from ttsbench.core import InvalidInput
from ttsbench.records import ReferenceVoiceRecord, read_rows, read_scores, sha256_of
from ttsbench.records.timing import TimingRow
from ttsbench.score import sections
from ttsbench.score.asr.weights import package_versions
from ttsbench.score.sections import SECTIONS, check_sections, code_sha256, inputs_sha256, score_section
from ttsbench.score.source import RunSource

ROOT = Path(__file__).parents[2]
TEXT = "one two three four"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path, [spoken(tmp_path, row, TEXT) for row in range(2)])


def score(run: Path, name: str = "timing") -> bool:
    return score_section(RunSource.open(run), name)


def test_a_section_is_made_once_and_again_when_what_it_was_made_from_has_changed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a changed WAV, a changed row file or other code leaves the old verdict in place."""
    assert score(run)
    assert not score(run)
    wav = next((run / "wav").iterdir())
    wav.write_bytes(wav.read_bytes() + b"\0")
    assert score(run)
    rows = run / "scores" / "timing.jsonl"
    rows.write_bytes(rows.read_bytes().replace(b"timing", b"tinning"))
    assert score(run)
    monkeypatch.setattr(sections, "code_sha256", lambda: "another release")
    assert score(run)
    assert not score(run)


def test_a_moved_run_is_the_same_run(tmp_path: Path) -> None:
    """Red when a run folder's own path is part of what a section was made from."""
    (tmp_path / "first").mkdir()
    run = write_run(tmp_path / "first", [spoken(tmp_path / "first", 0, TEXT)])
    assert score(run)
    moved = run.rename(tmp_path / "second")
    assert not score(moved)


def test_a_clip_is_what_it_holds_where_the_record_says(tmp_path: Path) -> None:
    """Red when a changed clip goes unseen, or one that has not changed makes the section stale."""
    clip = tmp_path / "clip.wav"
    clip.write_bytes(b"one")
    voice = ReferenceVoiceRecord(audio=str(clip), audio_sha256=sha256_of(b"one"), transcript=None)
    run = write_run(tmp_path, [spoken(tmp_path, 0, TEXT, voice=voice)])
    before = inputs_sha256(RunSource.open(run), "timing")
    assert inputs_sha256(RunSource.open(run), "timing") == before
    clip.write_bytes(b"two")
    assert inputs_sha256(RunSource.open(run), "timing") != before


@pytest.mark.parametrize(("package", "stale"), [("soxr", {*SECTIONS}), ("torch", {"speaker"})])
def test_other_packages_make_other_sections(
    run: Path, monkeypatch: pytest.MonkeyPatch, package: str, stale: set[str]
) -> None:
    """Red when what an upgraded package would measure is believed to have been measured, or torch, which only the
    encoder of voices uses, makes every section stale."""
    for name in SECTIONS:
        score(run, name)
    monkeypatch.setattr(sections, "package_versions", lambda *names: upgraded(package_versions(*names), package))
    assert {name for name in SECTIONS if score(run, name)} == stale
    told = {name: source.software.get(package) for name, source in read_scores(run).sources.items()}
    assert {name for name, version in told.items() if version == "upgraded"} == stale


def upgraded(versions: dict[str, str], package: str) -> dict[str, str]:
    return {name: "upgraded" if name == package else version for name, version in versions.items()}


def test_a_fresh_section_of_voices_is_known_without_torch(run: Path) -> None:
    """Red when torch is imported for its version: seconds for a section that is not judged again."""
    code = "import sys; from pathlib import Path; from ttsbench.score.sections import inputs_sha256; "
    code += "from ttsbench.score.source import RunSource; inputs_sha256(RunSource.open(Path(sys.argv[1])), 'speaker'); "
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "torch" not in done.stdout.split()


def test_a_section_names_its_rows(run: Path) -> None:
    """Red when the hash is of another file, or rows are written under another name."""
    score(run)
    made = read_scores(run).sources["timing"]
    assert made.rows_file == "scores/timing.jsonl"
    assert made.rows_sha256 == sha256_of((run / made.rows_file).read_bytes())
    assert [row.row_index for row in read_rows(run, "timing", TimingRow).records] == [0, 1]


def test_other_sections_stay(run: Path) -> None:
    """Red when a scorer writes its own scores.json in the place of all."""
    for name in SECTIONS:
        score(run, name)
    summary = read_scores(run)
    assert summary.sources.keys() == SECTIONS.keys()
    assert all(getattr(summary, name) is not None for name in SECTIONS)


def test_scores_of_the_first_version_get_their_section(run: Path) -> None:
    """Red when an older scores.json is refused, or what it says is lost."""
    (run / "scores.json").write_text('{"schema_version": 1, "kind": "scores", "wer": {}}', encoding="utf-8")
    assert score(run)
    assert read_scores(run).timing is not None


def test_an_unknown_section_is_refused_before_work(run: Path) -> None:
    """Red when a misspelled name is passed over."""
    with pytest.raises(InvalidInput, match="speaker, frames, pcm, timing"):
        check_sections(RunSource.open(run), ["tming"])


def test_the_code_hash_is_of_files_that_judge() -> None:
    """Red when a whole room is left out: the hash of nothing never changes."""
    names = {name for part in ("score", "trace", "records") for name in _hashed(part)}
    assert {"score/sections.py", "score/timing/judge.py", "trace/audit.py", "records/timing.py"} <= names
    assert len(code_sha256()) == 64


def _hashed(room: str) -> list[str]:
    return list(sections._hashes(files("ttsbench") / room, room))
