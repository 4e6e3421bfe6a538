"""The engine benchmark: its pinned work, its random model, its sums, and one run of it in two starts."""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from scripts import bench_machine
from scripts.bench_engine import (
    engine_option,
    make_requests,
    parse,
    plan_rounds,
    random_prompts,
    workload_faults,
)
from scripts.bench_table import table
from scripts.bench_workload import FILE, draw_workload, read_workload
from scripts.random_model import SHAPES, random_codec, random_talker
from ttsbench.core import Finish, FinishReason
from ttsbench.experiment import host
from ttsbench.experiment.load import Observation, RoundResult
from ttsbench.models.qwen3_tts.talker import Talker

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
WORKLOAD_SHA256 = "979fdfca5b236642666d8454ed7fd971f00ad26d431afde6a47741441ba2cfda"


def test_the_workload_is_the_one_that_published_figures_are_of() -> None:
    """Red for any change of the file: figures before and after it would not compare."""
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == WORKLOAD_SHA256
    assert read_workload() == draw_workload(seed=0)


def test_the_workload_has_lengths_like_seed_tts_english() -> None:
    rows = read_workload()
    frames, prompts = [row.frames for row in rows], [row.prompt_rows for row in rows]
    assert len(rows) == len({row.id for row in rows}) == 1088
    assert statistics.fmean(frames) == pytest.approx(57, abs=1)
    assert statistics.stdev(frames) >= 20
    assert min(frames) >= 15
    assert max(frames) <= 140
    assert statistics.fmean(prompts) == pytest.approx(30, abs=1)
    assert len({row.seed for row in rows}) == 1088


@pytest.mark.parametrize(("shape", "millions"), [("1.7b", 1916.7), ("0.6b", 905.8)])
def test_the_shapes_are_the_released_ones(shape: str, millions: float) -> None:
    """By parameters of talker and code predictor, which the weights of the releases have."""
    with torch.device("meta"):
        talker = Talker(SHAPES[shape].config)
    assert sum(p.numel() for p in talker.parameters()) / 1e6 == pytest.approx(millions, abs=0.05)
    assert SHAPES[shape].codec.hop == 1920


def test_random_weights_are_those_of_the_seed() -> None:
    """Red when a tensor is left as it was allocated."""
    shape = SHAPES["toy"]
    one, again = (random_talker(shape.config, CPU, torch.float32).state_dict() for _ in range(2))
    other = random_talker(shape.config, CPU, torch.float32, seed=1).state_dict()
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert all(not torch.equal(one[name], other[name]) for name in one if one[name].ndim > 1)
    codec, again_codec = (random_codec(shape.codec, CPU, torch.float32).state_dict() for _ in range(2))
    assert all(torch.equal(codec[name], again_codec[name]) for name in codec)


def test_random_codes_are_neither_silent_nor_clipped() -> None:
    """Red for an output that no trained codec has: all zero, at full scale, or not finite."""
    codec = random_codec(SHAPES["toy"].codec, CPU, torch.float32)
    codes = torch.randint(2048, (2, 24, codec.config.num_codebooks), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        pcm = codec.decode(codes)
    assert pcm.isfinite().all()
    assert 0.02 < pcm.std() < 0.5
    assert (pcm.abs() >= 1).float().mean() < 0.01


def test_prompts_have_the_workloads_lengths() -> None:
    rows = read_workload()[:5]
    prompts = random_prompts(rows, 24, CPU, torch.float32)
    assert {row.id: (row.prompt_rows, 24) for row in rows} == {name: tuple(p.rows.shape) for name, p in prompts.items()}
    assert all(len(prompt.trailing) == 1 for prompt in prompts.values())


def test_end_of_speech_is_never_drawn_before_the_limit() -> None:
    """Red when rows may end by themselves: then the audio of two engines differs."""
    (request,) = make_requests(read_workload()[:1], "c1r0")
    assert request.sampling.min_frames == request.max_frames == 79
    assert (request.sampling.repetition_penalty, request.sampling.talker.temperature) == (1.05, 0.9)
    assert (request.sampling.talker.top_k, request.sampling.code_predictor.top_k) == (50, 50)


def planned(*arguments: str) -> list[tuple[int, int, int]]:
    plans = plan_rounds(parse(arguments))
    return [(plan.concurrency, plan.number, plan.rows) for plan in plans]


def test_every_load_is_primed_and_has_enough_rows() -> None:
    """Red when the priming round is left out, or a load speaks other rows than its figures say."""
    assert planned("--concurrency", "1", "8", "32", "128", "--rounds", "1") == [
        (1, 0, 64), (1, 1, 64), (8, 0, 256), (8, 1, 256), (32, 0, 1088), (32, 1, 1088), (128, 0, 1088), (128, 1, 1088),
    ]  # fmt: skip
    assert planned("--concurrency", "8", "--rows", "9", "--priming-rows", "4") == [(8, 0, 4), (8, 1, 9), (8, 2, 9)]


def test_engine_options_are_checked() -> None:
    assert engine_option("num_kv_blocks=null") == ("num_kv_blocks", None)
    assert engine_option("batch_invariant=true") == ("batch_invariant", True)
    with pytest.raises(argparse.ArgumentTypeError, match="max_num_batched_tokens"):
        engine_option("max_num_tokens=5")
    with pytest.raises(argparse.ArgumentTypeError, match="block_size: expected a number"):
        engine_option("block_size=many")


def result(**changes: Any) -> RoundResult:
    row = read_workload()[0]
    length = Finish(FinishReason.LENGTH)
    spoken = Observation("r", row.id, 0, 0, 1, 2, row.frames, row.frames * 1920, row.frames, length, "00000000", ())
    return RoundResult(1, 1, (replace(spoken, **changes),), (), 1, 0.0, 1920, 24_000)


def test_a_row_of_another_length_is_a_fault() -> None:
    """Red when an engine may speak less than it was asked for, and so be fast."""
    rows = read_workload()[:1]
    assert workload_faults(result(), rows) == []
    assert workload_faults(result(frames=78), rows) == ["row-0000: 78 frames of 79, length"]
    assert workload_faults(result(faults=("lost",)), rows) == ["row-0000: 79 frames of 79, lost"]


def pooled(start: int, audio_s: float, wall_s: float) -> dict[str, Any]:
    rate = audio_s / wall_s
    return {
        "kind": "pooled", "concurrency": 8, "start": start, "audio_s": audio_s, "wall_s": wall_s, "rtf": 1 / rate,
        "audio_s_per_wall_s": rate, "by_round": [rate, rate], "bad_rows": 0, "gap_s": None,
        "first_audio_s": {"mean": 0.0254, "p50": 0.02, "p95": None, "p99": None},
    }  # fmt: skip


def test_starts_are_pooled_by_their_sums() -> None:
    """Red for a mean of rates: 8 s in 1 s and 8 s in 3 s are 4 a second, not 5.3."""
    lines = table([pooled(0, 8.0, 1.0), pooled(1, 8.0, 3.0), {"kind": "machine"}]).splitlines()
    assert [line.split()[:4] for line in lines[1:]] == [
        ["8", "0", "8.0", "8.0-8.0"],
        ["8", "1", "2.7", "2.7-2.7"],
        ["8", "all", "4.0", "2.7-8.0"],
    ]
    assert "25.4" in lines[1]


def test_the_source_has_the_hash_that_a_manifest_gives_it() -> None:
    """Red when the two ways to hash the package part; one of them runs where pydantic is missing."""
    package = ROOT / "ttsbench" / "core"
    assert bench_machine.source_sha256(package) == host.source_sha256(package)


def test_the_commit_may_come_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that was sent the source has no git folder; then it is named, or null."""
    monkeypatch.delenv(bench_machine.COMMIT, raising=False)
    assert bench_machine.commit(tmp_path) == {"commit": None, "dirty": None}
    monkeypatch.setenv(bench_machine.COMMIT, "abc")
    assert bench_machine.commit(tmp_path) == {"commit": "abc", "dirty": None}


def test_it_imports_where_nothing_but_torch_is_installed() -> None:
    """Red when the script or what it uses imports pydantic, soundfile and the like."""
    code = "import sys, scripts.bench_engine; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = set(done.stdout.split())
    assert "torch" in loaded
    assert not loaded & {"pydantic", "yaml", "soundfile", "soxr", "tokenizers", "typer", "rich", "huggingface_hub"}


def test_two_starts_keep_every_round_and_observation(tmp_path: Path) -> None:
    """Red when a start is no process of its own, the priming round counts, or the file lacks a row."""
    file = tmp_path / "bench.jsonl"
    plan = ["--shape", "toy", "--concurrency", "2", "--rows", "2", "--rounds", "1", "--starts", "2"]
    command = [sys.executable, "-m", "scripts.bench_engine", *plan, "--priming-rows", "1", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=ROOT, check=True)
    printed = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    written = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    kinds = ["machine", "engine", "round", "round", "pooled"]
    assert [line["kind"] for line in printed] == [line["kind"] for line in written] == kinds * 2
    assert len({line["start_id"] for line in printed}) == 2
    rounds = [line for line in written if line["kind"] == "round"]
    assert [(r["start"], r["round"], r["counted"]) for r in rounds] == [(s, n, n == 1) for s in (0, 1) for n in (0, 1)]
    assert {r["digest"] for r in rounds if r["counted"]} == {rounds[1]["digest"]}, "two starts say the same"
    for line in rounds:
        assert line["workload_faults"] == []
        assert sum(line["observations"]["frames"]) * 1920 == line["samples"]
        assert len(line["gaps_us"]) == line["frames"] - line["rows"]
    assert done.stdout.splitlines()[-1].split()[:2] == ["2", "all"]


def test_a_budget_that_is_spent_is_said_and_fails() -> None:
    """Red when rounds are left out in silence."""
    command = [sys.executable, "-m", "scripts.bench_engine", "--shape", "toy", "--concurrency", "1", "--rows", "1"]
    done = subprocess.run(
        [*command, "--seconds", "0.001"], capture_output=True, encoding="utf-8", cwd=ROOT, check=False
    )
    skipped = [line for line in done.stdout.splitlines() if '"skipped"' in line]
    assert (done.returncode, len(skipped)) == (1, 3)
