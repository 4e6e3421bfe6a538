"""How fast `ttsbench synth` speaks mini-en on this CPU: real-time factor by concurrency, and time to first audio.

    python scripts/bench_cpu.py [--model tiny] [--concurrency 1 4 8 16] [--rounds 3] [--rows 32] [--override key=value]
    python scripts/bench_cpu.py --compare-determinism --concurrency 1 8     # what batch_invariant costs

One engine per concurrency, with as many slots, all loaded before anything is timed. The settings take turns within a
round, in mirrored order from round to round, so that a machine which slows down slows them all. A round is a whole
`synth` run: WAVs, records and trace are written. The first round primes and is not counted.

Prints JSON lines (the machine, every round, every setting), then the same as a table. Real-time factor (RTF) is seconds
of computing per second of speech. First audio is counted from the hand-over of a row, and is given where rows do not
wait for each other: at concurrency 1. With --compare-determinism every concurrency is run at both levels, and a line
gives the ratio of their throughputs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from ttsbench.experiment.host import hardware
from ttsbench.experiment.options import SpeechOptions
from ttsbench.experiment.prepare import SynthOptions, prepare
from ttsbench.experiment.synthesis import Synthesis
from ttsbench.records import RequestRecord, RowStatus, RunFolder, read_requests

T = TypeVar("T")
LEVELS = ("seeded", "batch_invariant")


@dataclass
class Setting:
    """One concurrency, its engine, and what its rounds gave."""

    concurrency: int
    synthesis: Synthesis
    rtf: list[float] = field(default_factory=list)
    """Of each round."""
    first_audio_s: list[float] = field(default_factory=list)
    """Of each row of each round."""
    audio_s: float = 0.0
    determinism: str | None = None
    """Level laid over the profile's; None leaves it."""

    def run(self, keep: bool) -> dict[str, Any]:
        """One round in a folder of its own. Raises RuntimeError for a row that does not end well."""
        with tempfile.TemporaryDirectory() as folder:
            round_ = replace(self.synthesis, folder=RunFolder(Path(folder) / "run"))
            manifest = round_.run(lambda progress: None)
            records = list(read_requests(round_.folder.path).rows.values())
        if bad := [record.utterance_id for record in records if record.status is not RowStatus.OK]:
            raise RuntimeError(f"rows that did not end well: {', '.join(bad)}")
        assert manifest.audio_s_per_wall_s is not None  # a complete run has it
        if keep:
            self.rtf.append(1 / manifest.audio_s_per_wall_s)
            self.first_audio_s += [first_audio_s(record) for record in records]
            self.audio_s += manifest.audio_s
        return {**self.name, "counted": keep, "rtf": round(1 / manifest.audio_s_per_wall_s, 4)}

    @property
    def name(self) -> dict[str, Any]:
        """What tells it from the others."""
        level = {} if self.determinism is None else {"determinism": self.determinism}
        return {"concurrency": self.concurrency, **level}

    def report(self) -> dict[str, Any]:
        """Mean and range of the rounds. Every round speaks the same audio, so their mean is that of all the work."""
        first = sorted(self.first_audio_s) if self.concurrency == 1 else None
        return {
            **self.name,
            "rounds": len(self.rtf),
            "audio_s": round(self.audio_s, 1),
            "rtf": round(statistics.fmean(self.rtf), 4),
            "rtf_by_round": [round(min(self.rtf), 4), round(max(self.rtf), 4)],
            "audio_s_per_wall_s": round(1 / statistics.fmean(self.rtf), 2),
            "first_audio_median_s": None if first is None else round(statistics.median(first), 4),
            "first_audio_range_s": None if first is None else [round(first[0], 4), round(first[-1], 4)],
        }


def first_audio_s(record: RequestRecord) -> float:
    """From hand-over to first audio, of a row that was streamed."""
    assert record.first_audio_s is not None
    assert record.submitted_s is not None
    return record.first_audio_s - record.submitted_s


def mirrored(settings: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """(round, setting): forwards, backwards, forwards..."""
    for number in range(rounds):
        for setting in settings if number % 2 == 0 else reversed(settings):
            yield number, setting


def load(options: argparse.Namespace, concurrency: int, determinism: str | None) -> Setting:
    """A setting ready to run. Raises InvalidInput."""
    overrides = [f"max_num_seqs={concurrency}", *([f"determinism={determinism}"] if determinism else [])]
    speech = SpeechOptions(
        model=options.model, voice=options.voice, instruct=None, language="auto", text_layout=None, seed=0,
        max_frames=None, profile=options.profile, overrides=(*overrides, *options.override),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as unused:
        asked = SynthOptions(
            set="mini-en", out=Path(unused), speech=speech, x_vector_only=False, concurrency=concurrency, stream=True,
            locale=None, first=options.rows, strict=True, resume=False,
        )  # fmt: skip
        return Setting(concurrency, prepare(asked), determinism=determinism)


def ratios(settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Per concurrency how many times faster `seeded` is; empty where only one level was run."""
    rtf = {(s.concurrency, s.determinism): statistics.fmean(s.rtf) for s in settings}
    seeded, invariant = LEVELS
    return [
        {"concurrency": c, "seeded_over_batch_invariant": round(rtf[c, invariant] / rtf[c, seeded], 3)}
        for c in dict.fromkeys(s.concurrency for s in settings)
        if (c, invariant) in rtf
    ]


def table(reports: Sequence[dict[str, Any]]) -> str:
    """For people."""
    lines = [f"{'concurrency':>11}  {'RTF':>6}  {'by round':>15}  {'audio-s/s':>9}  first audio"]
    for report in reports:
        low, high = report["rtf_by_round"]
        spread = f"{low:.3f} - {high:.3f}"
        first = report["first_audio_median_s"]
        spoken = "-" if first is None else f"{1000 * first:.0f} ms"
        lines.append(
            f"{report['concurrency']:>11}  {report['rtf']:>6.3f}  {spread:>15}  "
            f"{report['audio_s_per_wall_s']:>9.2f}  {spoken}  {report.get('determinism', '')}".rstrip()
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--voice", help="by default the first that the checkpoint lists")
    parser.add_argument("--profile", default="qwen3_tts_fused_cpu")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=3, help="counted ones")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--override", action="append", default=[], help="key=value of the profile")
    parser.add_argument("--compare-determinism", action="store_true", help="every concurrency at both levels")
    options = parser.parse_args()
    levels = LEVELS if options.compare_determinism else (None,)
    settings = [load(options, concurrency, level) for concurrency in options.concurrency for level in levels]
    print(json.dumps(machine()))
    for number, setting in mirrored(settings, options.rounds + 1):
        print(json.dumps({"round": number, **setting.run(keep=number > 0)}), flush=True)
    reports = [setting.report() for setting in settings]
    for report in reports:
        print(json.dumps(report))
    for ratio in ratios(settings):
        print(json.dumps(ratio))
    print(table(reports))


def machine() -> dict[str, Any]:
    """What it ran on; the load average tells whether it was alone."""
    cpu = hardware()
    return {
        "cpu": cpu.cpu_model or platform.machine(),
        "cores": cpu.cpu_cores,
        "load": [round(load, 2) for load in os.getloadavg()],
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    main()
