"""`bench`: all is checked before the engine is loaded, every round is kept, and a failure keeps what was measured."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.cli.harness import CUSTOM_VOICE, Ended, ttsbench, write_list
from ttsbench.adapters.native import NativeEngine
from ttsbench.core import AudioChunk, SpeechRequest
from ttsbench.experiment.bench_record import describe_bench
from ttsbench.records import BenchRecord, RunStatus
from ttsbench.records.reader import read_bench
from ttsbench.records.schema import schema_name

SCHEMAS = Path(__file__).parents[2] / "results_schema"
ROWS = ("a|Hello there.", "b|Why?", "c|Go on.")


@pytest.fixture
def short_list(tmp_path: Path) -> Path:
    return write_list(tmp_path / "en" / "meta.lst", *ROWS)


def bench(list_path: object, out: Path, model: object, *options: object) -> Ended:
    return ttsbench("bench", "--set", list_path, "--model", model, "--out", out, "--rounds", 1, *options)


def shape(record: BenchRecord) -> list[tuple[int, int, bool]]:
    """(concurrency, round, counted) of every round."""
    return [(done.concurrency, done.number, done.counted) for done in record.rounds]


def test_every_round_and_observation_is_kept(short_list: Path, tmp_path: Path, terse_custom_voice: Path) -> None:
    """Red when the priming round is dropped or counted, rounds of one load differ in sound, a file is left over, or
    nothing is said before a round has ended.
    """
    out = tmp_path / "bench.json"
    ended = bench(short_list, out, terse_custom_voice, "--concurrency", 1, "--concurrency", 3, "--rounds", 2)
    assert ended.code == 0, ended.err
    record = read_bench(out)
    assert record.status is RunStatus.COMPLETE
    assert shape(record) == [(c, number, number > 0) for c in (1, 3) for number in (0, 1, 2)]
    for done in record.rounds:
        assert {o.utterance_id: o.row_index for o in done.observations} == {"a": 0, "b": 1, "c": 2}
        assert done.peak == done.concurrency
        assert done.samples == done.frames * record.engine.hop_samples > 0
        assert 0 < done.consumer_s < done.wall_s
    for concurrency in (1, 3):
        digests = {done.digest for done in record.rounds if done.concurrency == concurrency}
        assert len(digests) == 1, "the same rows with the same seeds in the same layout"
    assert [(p.concurrency, p.rounds) for p in record.pooled] == [(1, 2), (3, 2)]
    begun = [line for line in ended.err.splitlines() if line.endswith(": 3 rows")]
    assert begun == [
        f"C{c}, {which}: 3 rows" for c in (1, 3) for which in ("priming round", "round 1 of 2", "round 2 of 2")
    ]
    assert not record.settings.tracing
    assert {path.name for path in tmp_path.iterdir()} == {"en", "bench.json"}


def test_rounds_go_to_stdout_and_the_table_to_stderr(
    short_list: Path, tmp_path: Path, terse_custom_voice: Path
) -> None:
    """Red when a line says something else than the file, or under another name."""
    out = tmp_path / "bench.json"
    ended = bench(short_list, out, terse_custom_voice, "--concurrency", 2)
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert [(line["number"], line["counted"], line["concurrency"]) for line in lines] == [(0, False, 2), (1, True, 2)]
    assert lines[1]["rtf"] == pytest.approx(1 / lines[1]["audio_s_per_wall_s"])
    rounds = json.loads(out.read_bytes())["rounds"]
    assert lines == [{name: value for name, value in one.items() if name != "observations"} for one in rounds]
    assert "throughput, audio-s/s" in ended.err


def test_the_file_fits_its_schema(short_list: Path, tmp_path: Path, terse_custom_voice: Path) -> None:
    out = tmp_path / "bench.json"
    bench(short_list, out, terse_custom_voice, "--concurrency", 1, "--rows", 1)
    schema = json.loads((SCHEMAS / f"{schema_name('bench')}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(json.loads(out.read_bytes()))


def test_without_a_concurrency_the_slots_are_filled(short_list: Path, tmp_path: Path, terse_custom_voice: Path) -> None:
    """As far as there are rows."""
    out = tmp_path / "bench.json"
    bench(short_list, out, terse_custom_voice, "--override", "max_num_seqs=2")
    assert read_bench(out).concurrencies == (2,)
    other = tmp_path / "other.json"
    bench(short_list, other, terse_custom_voice)
    assert read_bench(other).concurrencies == (len(ROWS),)


def test_every_fault_is_told_at_once_and_no_engine_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a load that cannot be reached, an existing file or an empty row is found only as it runs."""

    def refuse(*_: object) -> None:
        raise AssertionError("the engine was loaded")

    monkeypatch.setattr(NativeEngine, "__init__", refuse)
    out = tmp_path / "bench.json"
    out.write_text("mine")
    rows = write_list(tmp_path / "en" / "meta.lst", *ROWS, "d| ")
    loads = [word for load in (2, 2, 16) for word in ("--concurrency", load)]
    ended = bench(rows, out, CUSTOM_VOICE, *loads, "--voice", "viviann", "--override", "max_num_seqs=8")
    assert ended.code == 2
    for fault in (
        f"--out {out}: expected a file that does not exist yet, got one that does",
        "--concurrency 2: expected each load once",
        "--concurrency 16: expected at most max_num_seqs 8 of profile qwen3_tts_fused_cpu, got 16",
        "or type --override max_num_seqs=16",
        "--concurrency 16: expected at most the 4 rows of the set, got 16",
        "got 'viviann'; did you mean 'vivian'?",
        f"{rows}:4: expected a row that can be spoken, got empty_text",
    ):
        assert fault in ended.err
    assert "6 problems" in ended.err
    assert out.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_refused(short_list: Path, tmp_path: Path) -> None:
    ended = bench(short_list, tmp_path / "none" / "bench.json", CUSTOM_VOICE)
    assert ended.code == 2
    assert "expected an existing folder to write into" in ended.err


def test_a_file_that_appears_meanwhile_is_not_replaced(
    short_list: Path, tmp_path: Path, terse_custom_voice: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the file is not claimed before the first round."""
    out = tmp_path / "bench.json"

    def describe_slowly(*arguments: object) -> BenchRecord:
        out.write_text("theirs")
        return describe_bench(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("ttsbench.experiment.bench.describe_bench", describe_slowly)
    ended = bench(short_list, out, terse_custom_voice)
    assert (ended.code, out.read_text()) == (2, "theirs")
    assert "one that has appeared" in ended.err


def test_a_row_that_fails_is_named_and_the_exit_is_4(tmp_path: Path, terse_custom_voice: Path) -> None:
    """Red when its audio counts, or the others' does not."""
    rows = write_list(tmp_path / "en" / "meta.lst", *ROWS, f"long|{'All that can be said about it. ' * 20}")
    out = tmp_path / "bench.json"
    limits = ("--override", "max_model_len=96", "--override", "block_size=16")
    ended = bench(rows, out, terse_custom_voice, "--text-layout", "non_streaming", *limits)
    assert ended.code == 4, ended.err
    for number in (0, 1):
        assert f"round {number}, long: failed, prompt_too_long" in ended.err
    done = read_bench(out).rounds[1]
    assert (done.rows_bad, done.counted) == (1, True)
    assert [o.utterance_id for o in done.observations if o.cause] == ["long"]
    assert done.audio_s > 0


def test_an_engine_that_breaks_leaves_the_rounds_before(
    short_list: Path, tmp_path: Path, terse_custom_voice: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On disk before the next one begins. Red when the file is written at the end alone, which a kill never reaches."""
    out = tmp_path / "bench.json"
    inner, found = NativeEngine.chunks, list[BenchRecord]()

    def chunks(self: NativeEngine, stopping: Callable[[], bool] = lambda: False) -> Iterator[AudioChunk]:
        found.append(read_bench(out))
        if len(found) == 2:
            raise RuntimeError("the device fell off")
        yield from inner(self, stopping)

    monkeypatch.setattr(NativeEngine, "chunks", chunks)
    ended = bench(short_list, out, terse_custom_voice, "--concurrency", 3)
    assert ended.code == 5
    assert "the device fell off" in ended.err
    record = read_bench(out)
    assert (record.status, shape(record), record.pooled) == (RunStatus.BROKEN, [(3, 0, False)], ())
    assert record.ended_at is not None
    assert [(r.status, len(r.rounds)) for r in found] == [(RunStatus.RUNNING, 0), (RunStatus.RUNNING, 1)]


def test_an_interruption_keeps_the_rounds_and_the_cut_one(
    short_list: Path, tmp_path: Path, terse_custom_voice: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the formal round. Red when it counts, the next load is begun, cancelled rows are called faulty, or two
    rounds use the same request ids.
    """
    submit, submitted = NativeEngine.submit, list[str]()

    def watched(self: NativeEngine, request: SpeechRequest) -> None:
        submitted.append(request.id)
        if len(submitted) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        submit(self, request)

    monkeypatch.setattr(NativeEngine, "submit", watched)
    out = tmp_path / "bench.json"
    ended = bench(short_list, out, terse_custom_voice, "--concurrency", 1, "--concurrency", 2)
    assert ended.code == 130
    assert len(set(submitted)) == len(submitted)
    record = read_bench(out)
    assert record.status is RunStatus.INTERRUPTED
    assert shape(record) == [(1, 0, False), (1, 1, False)]
    assert not record.rounds[1].complete
    assert len(record.rounds[1].observations) == len(submitted) - len(ROWS) < len(ROWS)
    assert f"interrupted; {out} has the rounds that were run" in ended.err
    assert ": cancelled" not in ended.err
