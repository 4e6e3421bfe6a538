"""The quality check in its halves: what travels, what comes back, and what is made of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scripts import gpu_quality
from scripts.gpu_quality import (
    ABOUT,
    Heard,
    as_run,
    compare,
    edits,
    paired_interval,
    prepare,
    sounds,
    verdict,
    write_sound,
)
from tests.cli.harness import ttsbench
from ttsbench.core import Finish, FinishReason
from ttsbench.score.row_audio import Charge, audio_of
from ttsbench.score.source import RunSource

ROOT = Path(__file__).parents[2]
BARE = """
import sys
lacking = "pydantic soundfile soxr tokenizers yaml typer rich huggingface_hub jiwer pyarrow matplotlib"
sys.modules |= dict.fromkeys(lacking.split())
from scripts.gpu_quality import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Path]:
    """Two short runs of two rows, and the same rows spoken where nothing but torch, numpy and safetensors is."""
    work = tmp_path_factory.mktemp("quality")
    runs = [work / f"run{seed}" for seed in (0, 1)]
    for seed, run in enumerate(runs):
        asked = ["--set", "mini-en", "--first", 2, "--max-frames", 4, "--seed", seed, "--concurrency", 2]
        assert ttsbench("synth", *asked, "--out", run).code == 4  # both rows are cut short
    prepare(work / "quality.json", runs)
    half = ["speak", work / "quality.json", work / "spoken", "--device", "cpu", "--dtype", "float32"]
    command = [sys.executable, "-c", BARE, *map(str, half), "--concurrency", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return runs, work / "spoken"


def test_the_same_rows_are_spoken_as_in_the_runs(halves: tuple[list[Path], Path]) -> None:
    """On a CPU in float32 they sound the same, to the last step of 16 bits. Red when a row gets another's seed, text,
    voice or limit, or settings of the run are lost on the way.
    """
    runs, spoken = halves
    about = json.loads((spoken / ABOUT).read_text())
    pcm = dict(sounds(spoken, about["files"]))
    assert len(pcm) == 4
    for number, run in enumerate(runs):
        source = RunSource.open(run)
        folder = spoken / str(number)
        folder.mkdir()
        theirs = as_run(source, number, about, pcm, folder)
        for index, record in theirs.log.rows.items():
            audio, original = audio_of(folder, record), audio_of(run, source.log.rows[index])
            assert not isinstance(audio, Charge)
            assert not isinstance(original, Charge)
            assert np.abs(audio.samples - original.samples).max() <= 2**-15
            assert record.status == source.log.rows[index].status


def test_codes_come_with_the_sound(halves: tuple[list[Path], Path]) -> None:
    """Red when a frame's codes are lost, or those of the end of speech are kept."""
    _, spoken = halves
    about = json.loads((spoken / ABOUT).read_text())
    with np.load(spoken / about["files"][0]) as arrays:
        for row in about["rows"]:
            codes, pcm = arrays[f"{row['key']}.codes"], arrays[f"{row['key']}.pcm"]
            assert codes.shape == (row["frames"], 16) == (4, 16)
            assert len(pcm) == 1920 * row["frames"]
            assert row["whole"]


def test_another_checkpoint_is_refused(halves: tuple[list[Path], Path], tmp_path: Path) -> None:
    runs, spoken = halves
    about = json.loads((spoken / ABOUT).read_text()) | {"checkpoint_files": {}}
    with pytest.raises(ValueError, match="same checkpoint"):
        as_run(RunSource.open(runs[0]), 0, about, {}, tmp_path)


def test_a_row_that_was_not_spoken_is_refused(halves: tuple[list[Path], Path], tmp_path: Path) -> None:
    """Red when it is left out instead: the rest would look well."""
    runs, spoken = halves
    about = json.loads((spoken / ABOUT).read_text())
    about["rows"][0]["finish"] = "failed"
    with pytest.raises(ValueError, match="was not spoken"):
        as_run(RunSource.open(runs[0]), 0, about, dict(sounds(spoken, about["files"])), tmp_path)


def test_sound_is_cut_into_files_that_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a row is lost at a cut, or a file is larger than it may be."""
    monkeypatch.setattr(gpu_quality, "FILE_BYTES", 1000)
    finish = Finish(FinishReason.STOP)
    heard = {
        f"0/{n}": Heard(np.full(80, n, dtype=np.float32), np.zeros((1, 16), dtype=np.int32), finish) for n in range(5)
    }
    names = write_sound(tmp_path, heard)
    assert len(names) == 3
    assert {key: sound[0] for key, sound in sounds(tmp_path, names)} == {f"0/{n}": n for n in range(5)}


def row(index: int, errors: int, words: int) -> Any:
    return SimpleNamespace(
        row_index=index, utterance_id=str(index), reference="", hypothesis="", substitutions=errors, deletions=0,
        insertions=0, reference_words=words, wer_pct=100 * errors / words, cause=None, cause_detail=None, audio_s=1.0,
    )  # fmt: skip


def test_sentences_are_paired_over_all_seeds(halves: tuple[list[Path], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the sides are swapped, rates are averaged, or seeds count as sentences of their own."""
    runs, spoken = halves
    answers = iter([[row(0, 1, 10), row(1, 0, 30)], [row(0, 3, 10), row(1, 0, 30)],
                    [row(0, 1, 10), row(1, 1, 30)], [row(0, 3, 10), row(1, 1, 30)]])  # fmt: skip
    monkeypatch.setattr(gpu_quality, "judged", lambda source: tuple(next(answers)))
    found = compare(spoken, runs)
    assert (found["sentences"], found["seeds"], found["reference_words"]) == (2, 2, 80)
    assert (found["cpu"]["corpus_wer_pct"], found["gpu"]["corpus_wer_pct"]) == (3.75, 8.75)
    assert found["difference_pct_points"] == 5.0
    assert found["interval_pct_points"] == [0.0, 20.0]  # the first sentence never, or always
    assert found["zero_inside"]
    assert [one["seed"] for one in found["rows_that_differ"]] == [0, 1]
    assert "zero lies inside" in verdict(found)


def test_a_difference_in_every_sentence_excludes_zero() -> None:
    low, high = paired_interval(np.full(64, 1), np.full(64, 10))
    assert (low, high) == (10.0, 10.0)


def test_a_row_that_broke_the_recogniser_is_no_zero() -> None:
    broken = row(3, 1, 10)
    broken.wer_pct, broken.cause_detail = None, "out of memory"
    with pytest.raises(ValueError, match="row 3 has no WER: out of memory"):
        edits([[broken]])
