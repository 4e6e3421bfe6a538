"""First audio of cloned voices, with reference clips that the engine has never heard and with ones that it keeps.

    python -m scripts.bench_clones                                              # tiny-base on this CPU, C1 and C32
    python -m scripts.bench_clones --model FOLDER --profile qwen3_tts_fused_single_gpu --rows 256

Every row clones one of the bundled clips, in context. In a cold round each row's clip is one that nobody has heard: the
lowest bits of its first samples count the rows, which no ear and hardly a codec can tell, but its file is another. In a
warm round the clips are the bundled ones, which the priming round has put into the cache. Cold and warm rounds take
turns, mirrored from one to the next, in one engine with a slot for each row of the largest concurrency. A closed loop
keeps C rows in the engine; first audio is from hand-in to samples in the consumer's hands, of every row, the first C of
which start together.

Prints JSON lines (the machine, every round), then a table of the pooled rounds. A round in which a row failed, a cold
clip was found or a warm one was not is an error.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from scripts.bench_machine import machine
from ttsbench.adapters.native import NativeEngine
from ttsbench.assets import asset_folder
from ttsbench.core import ReferenceVoice, SpeechRequest
from ttsbench.experiment.load import run_round
from ttsbench.profile import load_profile

ROOT = Path(__file__).resolve().parents[1]
COUNTER_BITS = 32
COLD, WARM = "cold", "warm"


@dataclass(frozen=True)
class Row:
    """A bundled row: what it says, in the voice of which clip, and what that clip says."""

    text: str
    clip: Path
    transcript: str


@dataclass
class Setting:
    """One concurrency with clips that are new, or known; and what its counted rounds gave."""

    concurrency: int
    clips: str
    first_audio_s: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        times = sorted(self.first_audio_s)
        return {
            "concurrency": self.concurrency,
            "clips": self.clips,
            "rows": len(times),
            "first_audio_mean_s": round(statistics.fmean(times), 4),
            "first_audio_median_s": round(statistics.median(times), 4),
            "first_audio_p95_s": round(times[min(len(times) - 1, int(0.95 * len(times)))], 4),
            "first_audio_max_s": round(times[-1], 4),
        }


def bundled_rows() -> list[Row]:
    """The rows of mini-en, in their order."""
    folder = asset_folder("mini_en") / "en"
    lines = (folder / "meta.lst").read_text(encoding="utf-8").splitlines()
    return [Row(text, folder / clip, words) for _, words, clip, text in (line.split("|") for line in lines)]


def unheard(clip: Path, number: int, folder: Path) -> Path:
    """A copy of a 16-bit clip that differs from all others of another `number` in the lowest bits of its start."""
    samples, rate = soundfile.read(clip, dtype="int16")
    bits = (number >> np.arange(COUNTER_BITS)) & 1
    samples[:COUNTER_BITS] = (samples[:COUNTER_BITS] & ~1) | bits
    path = folder / f"{clip.stem}-{number}.wav"
    soundfile.write(path, samples, rate, subtype="PCM_16")
    return path


class Bench:
    """One engine, and the rounds that it runs."""

    def __init__(self, engine: NativeEngine, rows: int | None, frames: int, folder: Path) -> None:
        self.engine = engine
        self.rows = rows
        self.frames = frames
        self.folder = folder
        self.texts = bundled_rows()
        self._made = 0
        self._rounds = 0

    def run(self, setting: Setting, counted: bool) -> dict[str, Any]:
        """One round. Raises RuntimeError for one that does not show what it is meant to."""
        requests = self._requests(setting)
        hop = self.engine.info().hop_samples
        result = run_round(self.engine, requests, setting.concurrency, hop, stats=self.engine.stats)
        if result.bad:
            raise RuntimeError("; ".join(f"{row.utterance_id}: {row.cause}" for row in result.bad))
        stats = result.stats or {}
        found, encoded = (stats["references"].get(name, 0) for name in ("hits", "misses"))
        if counted and (found if setting.clips == COLD else encoded):
            raise RuntimeError(f"{setting.clips} clips: {found} were known and {encoded} were not")
        times = [row.first_audio_s for row in result.observations if row.first_audio_s is not None]
        if counted:
            setting.first_audio_s += times
        one = Setting(setting.concurrency, setting.clips, times).figures()
        return {**one, "counted": counted, "references": stats["references"], "priming": stats["priming"]}

    def _requests(self, setting: Setting) -> list[SpeechRequest]:
        sampling = self.engine.info().default_sampling
        count = self.rows or max(8, 2 * setting.concurrency)
        self._rounds += 1
        made = []
        for number in range(count):
            row = self.texts[number % len(self.texts)]
            clip = row.clip
            if setting.clips == COLD:
                clip = unheard(clip, self._made, self.folder)
                self._made += 1
            name = f"{self._rounds}/{number}"
            voice = ReferenceVoice(clip, row.transcript)
            made.append(
                SpeechRequest(
                    name,
                    name,
                    row.text,
                    voice,
                    seed=number,
                    language="english",
                    max_frames=self.frames,
                    sampling=sampling,
                )
            )
        return made


def mirrored(settings: Sequence[Setting], rounds: int) -> Iterator[Setting]:
    """Every setting `rounds` times, in turns: forwards, backwards, forwards..."""
    for number in range(rounds):
        yield from settings if number % 2 == 0 else reversed(settings)


def table(reports: Sequence[dict[str, Any]]) -> str:
    """For people."""
    lines = [f"{'C':>4}  {'clips':<5}  {'rows':>5}  {'mean ms':>8}  {'median':>7}  {'p95':>7}  {'max':>7}"]
    for report in reports:
        mean, median, p95, most = (
            f"{1000 * report[f'first_audio_{name}_s']:.1f}" for name in ("mean", "median", "p95", "max")
        )
        head = f"{report['concurrency']:>4}  {report['clips']:<5}  {report['rows']:>5}"
        lines.append(f"{head}  {mean:>8}  {median:>7}  {p95:>7}  {most:>7}")
    return "\n".join(lines)


def pair(text: str) -> tuple[str, str]:
    """`key=value`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected key=value, such as ref_code_context_frames=72, got {text!r}")
    return key, value


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-base", help="a Base checkpoint")
    parser.add_argument("--profile", default="qwen3_tts_fused_cpu")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--rounds", type=int, default=2, help="counted ones, cold and warm each")
    parser.add_argument("--rows", type=int, help="of a round; by default twice the concurrency, eight at least")
    parser.add_argument("--frames", type=int, default=13, help="most codec frames of a row")
    parser.add_argument("--override", type=pair, action="append", default=[], help="key=value of the profile")
    options = parser.parse_args(arguments)
    overrides = {"max_num_seqs": str(max(options.concurrency)), **dict(options.override)}
    engine = NativeEngine(options.model, load_profile(options.profile, overrides))
    print(json.dumps({"machine": machine(ROOT), "profile": engine.profile.resolved()}), flush=True)
    settings = [Setting(concurrency, clips) for concurrency in options.concurrency for clips in (COLD, WARM)]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(engine, options.rows, options.frames, Path(folder))
        for setting in settings:
            print(json.dumps(bench.run(setting, counted=False)), flush=True)
        for setting in mirrored(settings, options.rounds):
            print(json.dumps(bench.run(setting, counted=True)), flush=True)
    print(table([setting.figures() for setting in settings]))


if __name__ == "__main__":
    main()
