"""The benchmark of cloned voices: clips that are new by their bytes alone, and rounds that show what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from scripts import bench_clones
from scripts.bench_clones import COLD, WARM, Bench, Setting, bundled_rows, main, mirrored, unheard
from tests.cli.harness import BASE
from ttsbench.adapters.native import NativeEngine
from ttsbench.profile import load_profile


def test_unheard_clips_differ_in_the_lowest_bits_of_their_start(tmp_path: Path) -> None:
    """Red when two numbers give one file, or when a clip becomes another recording."""
    clip = bundled_rows()[0].clip
    made = [unheard(clip, number, tmp_path) for number in (0, 1, 2, 70_000)]
    assert len({path.read_bytes() for path in made}) == 4
    samples, rate = soundfile.read(clip, dtype="int16")
    for path in made:
        other, other_rate = soundfile.read(path, dtype="int16")
        assert (other_rate, len(other)) == (rate, len(samples))
        assert np.abs(other.astype(int) - samples).max() <= 1
        assert np.array_equal(other[32:], samples[32:])


def test_settings_take_turns_in_mirrored_order() -> None:
    settings = [Setting(1, COLD), Setting(1, WARM)]
    assert [one.clips for one in mirrored(settings, 3)] == [COLD, WARM, WARM, COLD, COLD, WARM]


def test_every_concurrency_is_measured_cold_and_warm(capsys: pytest.CaptureFixture[str]) -> None:
    """Red when priming rounds count, a warm clip is encoded again, or a cold one is found."""
    options = ["--model", str(BASE), "--concurrency", "1", "3", "--rows", "4", "--frames", "2", "--rounds", "2"]
    main(options)
    lines = capsys.readouterr().out.splitlines()
    rounds = [json.loads(line) for line in lines if line.startswith("{")][1:]
    assert [one["counted"] for one in rounds] == [False] * 4 + [True] * 8
    for one in rounds[4:]:
        if one["clips"] == COLD:
            assert one["references"]["misses"] == one["references"]["encoded"] == 4
        else:
            assert one["references"] == {"hits": 4}
        assert one["priming"]["requests"] == 4
    grid = [line.split() for line in lines[-4:]]
    assert [(row[0], row[1], row[2]) for row in grid] == [
        ("1", COLD, "8"), ("1", WARM, "8"), ("3", COLD, "8"), ("3", WARM, "8"),
    ]  # fmt: skip


def test_a_cold_round_whose_clips_are_known_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the figures of such a round are printed as if they were what they are called."""
    monkeypatch.setattr(bench_clones, "unheard", lambda clip, number, folder: clip)
    bench = Bench(NativeEngine(str(BASE), load_profile("qwen3_tts_fused_cpu", {})), 2, 1, tmp_path)
    bench.run(Setting(1, COLD), counted=False)
    with pytest.raises(RuntimeError, match="cold clips: 2 were known and 0 were not"):
        bench.run(Setting(1, COLD), counted=True)
    assert not Setting(1, COLD).first_audio_s
