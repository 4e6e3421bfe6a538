"""Rows that cannot be spoken are charged by name; the others finish."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.cli.harness import BASE, CLIPS, Ended, check_run_folder, ttsbench, write_clip, write_list
from ttsbench.records import RequestRecord, RowStatus, RunStatus, read_manifest, read_requests

WORDS = "We baked a plum cake."


def synth(list_path: Path, out: Path, model: Path, *options: object) -> Ended:
    return ttsbench("synth", "--set", list_path, "--model", model, "--out", out, *options)


def by_id(run: Path) -> dict[str, RequestRecord]:
    return {record.utterance_id: record for record in read_requests(run).rows.values()}


def test_two_unspeakable_texts_among_64_rows(tmp_path: Path, terse_custom_voice: Path) -> None:
    """Goes red when such a row ends the run, is spoken as noise, has no record, or passes with exit code 0."""
    texts = {f"u{i:02}": f"Row {i} of many." for i in range(64)} | {"u10": " ", "u20": "……！？"}
    made = write_list(tmp_path / "en" / "meta.lst", *(f"{name}|{text}" for name, text in texts.items()))
    run = tmp_path / "run"
    ended = synth(made, run, terse_custom_voice, "--seed", 1, "--max-frames", 120, "--override", "max_num_seqs=32")
    assert ended.code == 4
    records = by_id(run)
    assert Counter(r.status for r in records.values()) == {RowStatus.OK: 62, RowStatus.INVALID: 2}
    assert (records["u10"].error_code, records["u20"].error_code) == ("empty_text", "no_speakable_text")
    assert "u10: invalid, empty_text" in ended.err
    assert "u20: invalid, no_speakable_text" in ended.err
    assert "62 of 64 rows ok" in ended.err
    check_run_folder(run)
    ok = [r for r in records.values() if r.status is RowStatus.OK]
    assert len({r.wav_sha256 for r in ok}) == 62, "two rows have the same audio"
    assert len({r.seed for r in records.values()}) == 64
    manifest = read_manifest(run)
    assert (manifest.status, manifest.counts.ok, manifest.counts.invalid) == (RunStatus.COMPLETE, 62, 2)


@pytest.fixture
def clone_list(tmp_path: Path) -> Path:
    """Five rows that can be cloned and four that cannot, each for its own reason."""
    folder = tmp_path / "en"
    write_clip(folder / "silent.wav", np.zeros(24_000))
    (folder / "broken.wav").write_bytes(b"RIFF no audio at all")
    good = [
        f"ok{i}|{WORDS}|{CLIPS / name}|Row {i}." for i, name in enumerate(sorted(p.name for p in CLIPS.iterdir())[:5])
    ]
    bad = [
        f"missing|{WORDS}|nowhere.wav|One.",
        f"silent|{WORDS}|silent.wav|Two.",
        f"broken|{WORDS}|broken.wav|Three.",
        f"wordless||{CLIPS / 'af_bella.wav'}|Four.",
    ]
    return write_list(folder / "meta.lst", *good[:2], *bad, *good[2:])


CAUSES = {
    "missing": "reference_missing",
    "silent": "reference_silent",
    "broken": "reference_unreadable",
    "wordless": "reference_text_missing",
}


@pytest.mark.parametrize(("frames", "fine"), [(3, RowStatus.LENGTH), (200, RowStatus.OK)])
def test_bad_references_charge_their_rows_alone(
    tmp_path: Path, clone_list: Path, terse_base: Path, frames: int, fine: RowStatus
) -> None:
    """Goes red when one bad clip ends the run, a wordless one is cloned by x-vector, or `length` counts as ok.

    The plain toy never ends by itself, so under 3 frames its good rows are all cut; the terse one ends in time.
    """
    model = BASE if fine is RowStatus.LENGTH else terse_base
    ended = synth(clone_list, tmp_path / "run", model, "--seed", 2, "--max-frames", frames)
    assert ended.code == 4
    records = by_id(tmp_path / "run")
    assert {name: records[name].error_code for name in CAUSES} == CAUSES
    assert all(records[name].status is RowStatus.INVALID for name in CAUSES)
    assert {r.status for name, r in records.items() if name not in CAUSES} == {fine}
    counts = read_manifest(tmp_path / "run").counts
    assert (counts.ok + counts.length, counts.invalid, counts.expected) == (5, 4, 9)
    assert f"{5 if fine is RowStatus.OK else 0} of 9 rows ok" in ended.err
    for name, cause in CAUSES.items():
        assert f"{name}: invalid, {cause}" in ended.err
    assert ("ok0: length, cut after 3 frames" in ended.err) == (fine is RowStatus.LENGTH)
    check_run_folder(tmp_path / "run")


def test_rows_without_faults_give_exit_code_zero(tmp_path: Path, terse_custom_voice: Path) -> None:
    """Goes red when a run in which every row is ok does not say so."""
    made = write_list(tmp_path / "en" / "meta.lst", "a|Hello.", "b|Go on.")
    assert synth(made, tmp_path / "run", terse_custom_voice, "--seed", 1, "--max-frames", 120).code == 0


def test_without_transcripts_a_base_checkpoint_clones_by_x_vector_when_asked(
    tmp_path: Path, clone_list: Path, terse_base: Path
) -> None:
    """Goes red when --x-vector-only still asks for the clip's words, or passes them on."""
    synth(clone_list, tmp_path / "run", terse_base, "--x-vector-only", "--seed", 2, "--max-frames", 4)
    records = by_id(tmp_path / "run")
    assert records["wordless"].status in (RowStatus.OK, RowStatus.LENGTH)
    assert records["silent"].error_code == "reference_silent"
    assert all(getattr(record.voice, "transcript", None) is None for record in records.values())


def test_strict_turns_faults_of_rows_into_faults_of_the_list(
    tmp_path: Path, clone_list: Path, terse_base: Path
) -> None:
    """Goes red when --strict starts a run, or tells less than all the rows that cannot be spoken."""
    ended = synth(clone_list, tmp_path / "run", terse_base, "--strict")
    assert ended.code == 2
    assert "4 problems" in ended.err
    for line, cause in zip((3, 4, 5, 6), CAUSES.values(), strict=True):
        assert f"{clone_list}:{line}: expected a row that can be spoken, got {cause}" in ended.err
    assert not (tmp_path / "run").exists()
