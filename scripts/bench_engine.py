"""How fast the native engine speaks at the released shapes: seeded random weights, made on the device, no files.

    python -m scripts.bench_engine --shape 1.7b --concurrency 1 8 32 64 128 --starts 2 --json bench.jsonl

Needs torch, numpy and safetensors alone. The workload is pinned (scripts/bench_workload.csv): C1 speaks its first 64
rows, C2 to C31 the first 256, from C32 on all 1,088. A row ends at its frame limit, and end of speech is never drawn.
A closed loop keeps at most C rows in the engine; first audio is from hand-in to PCM in the consumer's hands, and the
consumer hashes every byte (`ttsbench.experiment.load`). Prompts are random rows made ahead: text is not measured.

Each start is a fresh process: one priming round per concurrency, labelled and not counted, then the formal rounds. All
rounds are printed as JSON lines: the machine, the engine, every round; the table at the end pools the formal ones. With
--json they are appended to a file too, each round with all its observations.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from scripts.bench_machine import clocks, machine
from scripts.bench_table import table
from scripts.bench_workload import WorkloadRow, read_workload
from scripts.random_model import SHAPES, random_codec, random_talker
from ttsbench.core import DrawParams, NamedVoice, SamplingParams, SpeechRequest
from ttsbench.engine.fused import FusedEngine, FusedOptions
from ttsbench.experiment.load import RoundResult, run_round
from ttsbench.experiment.load_figures import observation_columns, pooled_figures, round_figures
from ttsbench.models.qwen3_tts.prompt import Prompt

ROOT = Path(__file__).resolve().parents[1]
SAMPLE_RATE_HZ = 24_000
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
DRAW = DrawParams(temperature=0.9, top_k=50)


@dataclass(frozen=True)
class Plan:
    """One round to run."""

    concurrency: int
    number: int
    """0 is the priming round."""
    rows: int

    @property
    def counted(self) -> bool:
        return self.number > 0


def build_engine(
    shape: str, device: torch.device, dtype: torch.dtype, codec_dtype: torch.dtype, options: FusedOptions,
    make_prompt: Callable[[SpeechRequest], Prompt],
) -> FusedEngine:  # fmt: skip
    """The engine over random weights of `shape`. The one place that knows how an engine is put together."""
    made = SHAPES[shape]
    talker = random_talker(made.config, device, dtype)
    codec = random_codec(made.codec, device, codec_dtype)
    return FusedEngine(made.config, talker, codec, SAMPLE_RATE_HZ, make_prompt, options)


def random_prompts(
    rows: Sequence[WorkloadRow], width: int, device: torch.device, dtype: torch.dtype
) -> dict[str, Prompt]:
    """A prompt per row, by its id: random talker rows [P, D], and one pad row for every frame."""
    generator = torch.Generator(device).manual_seed(0)
    total = sum(row.prompt_rows for row in rows)
    flat = torch.empty(total + 1, width, device=device, dtype=dtype).normal_(0, 0.1, generator=generator)
    pad = flat[-1]
    pieces = torch.split(flat[:-1], [row.prompt_rows for row in rows])
    return {row.id: Prompt(piece, pad[None], pad) for row, piece in zip(rows, pieces, strict=True)}


def make_requests(rows: Sequence[WorkloadRow], name: str) -> list[SpeechRequest]:
    """The requests of round `name`. Each ends at its limit, for end of speech is forbidden before it."""
    return [
        SpeechRequest(
            id=f"{name}/{row.id}",
            utterance_id=row.id,
            text="random rows stand for the prompt",
            voice=NamedVoice("random"),
            seed=row.seed,
            max_frames=row.frames,
            sampling=SamplingParams(DRAW, DRAW, repetition_penalty=1.05, min_frames=row.frames),
        )
        for row in rows
    ]


def plan_rounds(options: argparse.Namespace) -> Iterator[Plan]:
    """Per concurrency the priming round, then the formal ones."""
    for concurrency in options.concurrency:
        rows = rows_at(concurrency, options.rows)
        priming = rows if options.priming_rows is None else min(rows, options.priming_rows)
        yield Plan(concurrency, 0, priming)
        for number in range(1, options.rounds + 1):
            yield Plan(concurrency, number, rows)


def rows_at(concurrency: int, cap: int | None) -> int:
    """Rows of a round: enough of them at every load, no more than time allows at low load."""
    rows = 64 if concurrency == 1 else 256 if concurrency < 32 else 1088
    return rows if cap is None else min(rows, cap)


def workload_faults(result: RoundResult, rows: Sequence[WorkloadRow]) -> list[str]:
    """Rows that did not speak as many frames as the workload says."""
    asked = {row.id: row.frames for row in rows}
    return [
        f"{o.utterance_id}: {o.frames} frames of {asked[o.utterance_id]}, {o.cause or o.finish.reason.value}"
        for o in result.observations
        if o.cause is not None or o.frames != asked[o.utterance_id]
    ]


class Start:
    """One engine process: builds the engine, runs every planned round, says each as a line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.workload = read_workload()
        self.device = torch.device(options.device or ("cpu" if options.shape == "toy" else "cuda"))
        self.deadline = time.monotonic() + (options.seconds or float("inf"))
        self.start_id = secrets.token_hex(4)
        self.prompts: dict[str, Prompt] = {}

    def run(self) -> bool:
        """Whether every round ran to its end and every row spoke as it should."""
        self.say("machine", machine(ROOT))
        engine = self.build()
        good = True
        for concurrency, plans in groupby(plan_rounds(self.options), key=lambda plan: plan.concurrency):
            counted = []
            for plan in plans:
                if self.late():
                    where = {"concurrency": concurrency, "round": plan.number}
                    self.say("skipped", where | {"why": "--seconds are spent"})
                    good = False
                    continue
                result, sound = self.round(engine, plan)
                good &= sound
                counted += [result] if plan.counted and result.complete else []
            if counted:
                self.say("pooled", {"concurrency": concurrency, **pooled_figures(counted)})
        return good

    def build(self) -> FusedEngine:
        options, began = self.options, time.monotonic()
        dtype = DTYPES[options.dtype or ("float32" if self.device.type == "cpu" else "bfloat16")]
        codec_dtype = DTYPES[options.codec_dtype] if options.codec_dtype else dtype
        needed = max((plan.rows for plan in plan_rounds(options)), default=0)
        width = SHAPES[options.shape].config.talker.hidden_size
        self.prompts = random_prompts(self.workload[:needed], width, self.device, dtype)
        fused = fused_options(options)
        engine = build_engine(
            options.shape, self.device, dtype, codec_dtype, fused, lambda request: self.prompts[request.utterance_id]
        )
        self.synchronize()
        self.say(
            "engine",
            {
                "shape": options.shape,
                "device": str(self.device),
                "dtype": str(dtype).removeprefix("torch."),
                "codec_dtype": str(codec_dtype).removeprefix("torch."),
                "options": {field.name: getattr(fused, field.name) for field in fields(fused)},
                "built_s": round(time.monotonic() - began, 3),
                "memory_bytes": torch.cuda.memory_allocated() if self.device.type == "cuda" else None,
            },
        )
        return engine

    def round(self, engine: FusedEngine, plan: Plan) -> tuple[RoundResult, bool]:
        """What a round gave, and whether it ran to its end and every row spoke as it should."""
        rows = self.workload[: plan.rows]
        requests = make_requests(rows, f"c{plan.concurrency}r{plan.number}")
        hop = SHAPES[self.options.shape].codec.hop
        stats: Callable[[], dict[str, Any]] | None = getattr(engine, "stats", None)
        result = run_round(engine, requests, plan.concurrency, hop, stats=stats, stopping=self.late)
        faults = workload_faults(result, rows)
        line = {
            "round": plan.number,
            "counted": plan.counted and result.complete,
            **round_figures(result),
            "step_shares": step_shares(result.stats or {}),
            "compilations": (result.stats or {}).get("compilations", 0),
            "workload_faults": faults[:5],
            "workload_fault_count": len(faults),
            "clocks": clocks() if self.device.type == "cuda" else None,
            "peak_memory_bytes": torch.cuda.max_memory_allocated() if self.device.type == "cuda" else None,
        }
        self.say("round", line, observations=observation_columns(result), gaps_us=[ns // 1000 for ns in result.gaps_ns])
        return result, result.complete and not faults

    def say(self, kind: str, line: dict[str, Any], **only_in_file: Any) -> None:
        """Print a line; append it, with what is too long to print, to the file."""
        head = {"kind": kind, "start": self.options.start_number, "start_id": self.start_id, **line}
        print(json.dumps(head, default=str), flush=True)
        if self.options.json:
            with self.options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(head | only_in_file, separators=(",", ":"), default=str) + "\n")

    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def step_shares(stats: Mapping[str, Any]) -> dict[str, float]:
    """How much of all steps each kind was: decode alone, prompts alone, both mixed, one row of a frame again."""
    steps = stats.get("steps", {})
    return {kind: round(count / sum(steps.values()), 4) for kind, count in steps.items()}


def fused_options(options: argparse.Namespace) -> FusedOptions:
    """Engine options, those of --option laid over what the shape and the plan need."""
    given = {
        "max_num_seqs": options.capacity or max(options.concurrency),
        "max_model_len": 512 if options.shape == "toy" else 4096,
    }
    return FusedOptions(**given | dict(options.option))


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def engine_option(pair: str) -> tuple[str, Any]:
    """`key=value` of FusedOptions, the value as JSON."""
    key, equals, value = pair.partition("=")
    known = [field.name for field in fields(FusedOptions)]
    if not equals or key not in known:
        raise argparse.ArgumentTypeError(f"expected key=value with a key of {', '.join(known)}, got {pair!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{key}: expected a number, true, false or null, got {value!r}") from None


def run_starts(arguments: Sequence[str], starts: int) -> tuple[list[dict[str, Any]], int]:
    """Run so many fresh processes in turn, showing their lines as they come; the lines, and the worst exit code."""
    lines, worst = [], 0
    for number in range(starts):
        command = [sys.executable, "-m", "scripts.bench_engine", *arguments, "--start-number", str(number)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8") as process:
            assert process.stdout is not None
            for text in process.stdout:
                print(text, end="", flush=True)
                if text.startswith("{"):
                    lines.append(json.loads(text))
        worst = max(worst, abs(process.returncode))
    return lines, worst


def main() -> int:
    arguments = sys.argv[1:]
    options = parse(arguments)
    if options.start_number is not None:
        return 0 if Start(options).run() else 1
    lines, code = run_starts(arguments, options.starts)
    print(table(lines))
    return code


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="1.7b")
    parser.add_argument("--concurrency", type=count, nargs="+", default=[1, 8, 32, 64, 128])
    parser.add_argument("--rounds", type=count, default=2, help="formal ones per concurrency and start")
    parser.add_argument("--starts", type=count, default=1, help="fresh processes, one after the other")
    parser.add_argument(
        "--rows", type=count, help="at most so many rows a round; the figures are then of another workload"
    )
    parser.add_argument("--priming-rows", type=count, help="at most so many rows in a priming round")
    parser.add_argument("--capacity", type=count, help="max_num_seqs; by default the largest concurrency")
    parser.add_argument("--option", type=engine_option, action="append", default=[], help="key=value of FusedOptions")
    parser.add_argument("--device", help="by default cuda, or cpu for the toy shape")
    parser.add_argument("--dtype", choices=DTYPES, help="by default bfloat16, on a CPU float32")
    parser.add_argument("--codec-dtype", choices=DTYPES, help="by default that of the talker")
    parser.add_argument("--seconds", type=float, help="per start: then the round in hand stops and the rest is skipped")
    parser.add_argument("--json", type=Path, help="append every line and observation to this file")
    parser.add_argument("--start-number", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.capacity is not None and max(options.concurrency) > options.capacity:
        parser.error(f"--concurrency {max(options.concurrency)} is more than --capacity {options.capacity} slots")
    if options.json:
        options.json = options.json.absolute()
    return options


if __name__ == "__main__":
    sys.exit(main())
