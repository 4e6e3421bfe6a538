"""Where the time of one step goes: talker, code predictor, sampling, codec and host, in microseconds beside the floors.

    python -m scripts.bench_parts --shape 1.7b --rows 1 8 32 64 128 [--context 64] [--timeline]

Each part is captured alone in a CUDA graph and replayed with nothing beside it; the whole step, talker to codec on two
streams, stands last. Rows are padded as the engine pads them; floors are those of the real ones. The floor of a part is
the larger of its bytes over the measured memory bandwidth and its operations over the measured matrix rate, both taken
first in the same run; each weight is read once per pass. Sampling is part of `frame`; its own line replays the sixteen
draws without the network between. `--timeline` lists the kernels.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from scripts.bench_ceilings import REPEATS, Ceilings, timed
from scripts.bench_machine import machine
from scripts.random_model import SHAPES, Shape, random_codec, random_talker
from ttsbench.core import DrawParams, NamedVoice, SamplingParams, SpeechRequest
from ttsbench.engine.buckets import Buckets
from ttsbench.engine.graphs import Graphs
from ttsbench.engine.runner import Runner, RunnerOptions
from ttsbench.engine.scheduler import Sequence, StepPlan
from ttsbench.kernels.draw import Drawn, Rows, draw_code, draw_first_code
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.packed import PackedTalker
from ttsbench.models.qwen3_tts.prompt import Prompt

ROOT = Path(__file__).resolve().parents[1]
PROMPT_ROWS = 30


class Bench:
    """A runner at one size, with every slot in the middle of an utterance."""

    def __init__(self, made: Shape, capacity: int, context: int, device: torch.device) -> None:
        self.made = made
        self.capacity = capacity
        self.context = context
        talker = random_talker(made.config, device, torch.bfloat16)
        decoder = random_codec(made.codec, device, torch.bfloat16)
        self.packed = PackedTalker(talker, 4096)
        codec = StreamingCodec(decoder, capacity + 1)
        self.decoder_bytes = sum(p.nbytes for p in decoder.parameters())
        per_slot = -(-(context + 64) // 16)
        options = RunnerOptions(capacity, 512, 4096, 16, capacity * per_slot, graphs=True)
        self.runner = Runner(made.config, self.packed, codec, options)
        self.parts = Graphs(self.runner.main)
        draws = DrawParams(temperature=0.9, top_k=50)
        sampling = SamplingParams(draws, draws, 1.05, min_frames=10_000)
        row = torch.zeros(made.config.talker.hidden_size, device=device, dtype=torch.bfloat16)
        most = self.runner.max_frames
        self.first_logits = torch.randn(most, len(self.packed.head), device=device).bfloat16()
        self.rest_logits = torch.randn(most, self.packed.codebook_size, device=device).bfloat16()
        self.sequences = []
        for slot in range(capacity):
            request = SpeechRequest(str(slot), str(slot), "text", NamedVoice("random"), slot, 10_000, sampling=sampling)
            sequence = Sequence(request, prompt_rows=PROMPT_ROWS, frame_limit=10_000, slot=slot, prefilled=PROMPT_ROWS)
            sequence.launched = context - PROMPT_ROWS + 1
            blocks = list(range(slot * per_slot, (slot + 1) * per_slot))
            prompt = Prompt(torch.randn(PROMPT_ROWS, len(row), device=device).to(row), row[None], row)
            self.runner.start(slot, blocks, request, prompt, 10_000)
            self.sequences.append(sequence)

    def plan(self, rows: int) -> StepPlan:
        return StepPlan(tuple(self.sequences[:rows]), ())

    @torch.inference_mode()
    def measure(self, rows: int, ceilings: Ceilings, timeline: bool) -> list[dict[str, Any]]:
        """One line per part."""
        runner, program = self.runner, self.runner.program
        _, frames, spoken = runner.sizes(self.plan(rows), padded=True)
        runner.warm_up(Buckets((frames,), (spoken,), ()))
        runner.rows.write(self.plan(rows), frames, frames)
        with runner.context():
            runner.control.send()
        torch.cuda.synchronize()
        program.codec_input[:spoken] = program.frame.report[:spoken]
        program.codec_input[:rows, -1] = torch.arange(rows, device=self.packed.device)
        program.codec_input[:spoken, :-2] %= self.made.config.codebook_size
        hidden = torch.randn(frames, self.made.config.talker.hidden_size, device=self.packed.device).bfloat16()
        parts: dict[str, Callable[[], object]] = {
            "talker": lambda: program.talker(frames, None, query_len=1),
            "frame": lambda: program.frame.run(hidden),
            "sampling": lambda: self.draw(frames),
            "codec": lambda: program.codec(spoken),
        }
        floors = self.floors(rows)
        lines = []
        for name, part in parts.items():
            self.parts.capture((name, rows), partial(void, part))
            with runner.context():
                us = timed(partial(self.parts.replay, (name, rows)))
            floor = ceilings.floor_us(*floors[name]) if name in floors else None
            lines.append(self.line(name, rows, us, floor))
            if timeline:
                lines += [{"rows": rows, "part": name, **kernel} for kernel in kernels(partial(void, part))]
        lines.append(self.line("step", rows, self.step_us(rows), None))
        lines.append(self.line("host", rows, self.host_us(rows), None))
        return lines

    def line(self, part: str, rows: int, us: float, floor: float | None) -> dict[str, Any]:
        ratio = None if floor is None else round(us / floor, 2)
        return {
            "part": part, "rows": rows, "context": self.context, "us": round(us, 1),
            "floor_us": None if floor is None else round(floor, 1), "times_floor": ratio,
        }  # fmt: skip

    def draw(self, rows: int) -> None:
        """The sixteen draws of a frame over logits that stand there."""
        frame, packed, state = self.runner.program.frame, self.packed, self.runner.state
        control = self.runner.control.device
        who = Rows(control["frame_slots"][:rows], control["frames"][:rows], state.seeds)
        drawn = Drawn(frame.codes[:rows], frame.sound[:rows])
        width = packed.code_rows[0].shape[1]
        into = torch.empty(rows, width, device=packed.device, dtype=packed.dtype)
        first, rest = self.first_logits[:rows], self.rest_logits[:rows]
        draw_first_code(first, who, state.talker, state.rules, drawn, packed.code_rows[0], into)
        for book in range(1, packed.num_codebooks):
            rows_of = packed.code_rows[min(book, packed.num_codebooks - 2)]  # the last code has none
            draw_code(book, rest, who, state.predictor, drawn, rows_of, into)

    def step_us(self, rows: int) -> float:
        """A whole step in steady state: launches back to back, as fast as the host can."""
        runner, plan = self.runner, self.plan(rows)
        flights = []
        start = 0.0
        for number in range(REPEATS + 10):
            if number == 10:
                torch.cuda.synchronize()
                start = time.perf_counter()
            flights.append(runner.launch(plan))
            if len(flights) > 1:
                runner.collect(flights.pop(0))
        torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - start) / REPEATS

    def host_us(self, rows: int) -> float:
        """The host's own part of a launch, and of taking the output in; the device has long finished."""
        runner, plan = self.runner, self.plan(rows)
        spent = []
        for _ in range(REPEATS):
            torch.cuda.synchronize()
            start = time.perf_counter()
            flight = runner.launch(plan)
            launched = time.perf_counter() - start
            torch.cuda.synchronize()
            start = time.perf_counter()
            runner.collect(flight)
            spent.append(1e6 * (launched + time.perf_counter() - start))
        return statistics.median(spent)

    def floors(self, rows: int) -> dict[str, tuple[float, float]]:
        """(bytes, operations) of each part, the least that any implementation moves and does."""
        config = self.made.config
        talker = sum(tensor.nbytes for layer in self.packed.talker.layers for tensor in vars(layer).values()
                     if isinstance(tensor, torch.Tensor)) + self.packed.head.nbytes  # fmt: skip
        kv = 2 * config.talker.num_layers * config.talker.num_kv_heads * config.talker.head_dim * 2
        layers = sum(tensor.nbytes for layer in self.packed.predictor.layers for tensor in vars(layer).values()
                     if isinstance(tensor, torch.Tensor))  # fmt: skip
        heads = sum(head.nbytes for head in self.packed.lm_heads)
        passes = config.num_codebooks - 1
        # 4.961 GFLOP and 16.7 MB per row and frame: the codec decoder at the released shapes, activations once each.
        codec = (self.decoder_bytes + rows * 16.7e6, rows * 4.961e9)
        attention = 4 * self.context * config.talker.num_heads * config.talker.head_dim * config.talker.num_layers
        return {
            "talker": (talker + rows * (self.context + 1) * kv, rows * (talker + attention)),
            "frame": (passes * layers + heads, rows * ((passes + 1) * layers + heads)),
            **({"codec": codec} if config.talker.hidden_size >= 1024 else {}),
        }


def void(work: Callable[[], object]) -> None:
    """Do it and keep nothing: what a graph returns would pin its memory."""
    work()


def kernels(work: Callable[[], None], top: int = 25) -> list[dict[str, Any]]:
    """Device time of one eager call by kernel, the longest first."""
    work()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work()
        torch.cuda.synchronize()
    spent: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spent[event.name[:90]] += event.device_time
            calls[event.name[:90]] += 1
    rest = sum(spent.values())
    found = [{"kernel": name, "calls": calls[name], "us": round(us, 1)} for name, us in spent.most_common(top)]
    return [*found, {"kernel": "all", "calls": sum(calls.values()), "us": round(rest, 1)}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="1.7b")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32, 64, 128])
    parser.add_argument("--context", type=int, default=64, help="KV positions before the step's own")
    parser.add_argument("--timeline", action="store_true", help="list the kernels of each part")
    parser.add_argument("--json", type=Path, help="append the lines to this file too")
    options = parser.parse_args()
    device = torch.device("cuda")

    def say(line: dict[str, Any]) -> None:
        text = json.dumps(line)
        print(text, flush=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(text + "\n")

    say(machine(ROOT))
    ceilings = Ceilings.measured(device)
    say({"bytes_per_s": ceilings.bytes_per_s, "flops_per_s": ceilings.flops_per_s})
    torch.cuda.empty_cache()
    bench = Bench(SHAPES[options.shape], max(options.rows), options.context, device)
    for rows in sorted(options.rows):
        for line in bench.measure(rows, ceilings, options.timeline):
            say(line)


if __name__ == "__main__":
    main()
