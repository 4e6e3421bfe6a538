"""How fast the fused engine speaks, and what `batch_invariant` costs: a ratio measured side by side in one run.

    python scripts/bench_engine.py [--model tiny] [--concurrency 1 8] [--rounds 3] [--override key=value ...]

One engine per setting, in A B B A order over the rounds, same requests and seeds. Prints one JSON line per setting
with the pooled audio throughput (audio seconds / wall seconds over all rounds), its range by round, and mean time to
first audio; then one line with the ratio of the determinism levels at each concurrency.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import dataclass, field

import torch

from ttsbench.adapters.native import NativeEngine
from ttsbench.core import NamedVoice, SpeechRequest
from ttsbench.corpus import load_corpus, select
from ttsbench.profile import load_profile

LEVELS = ("seeded", "batch_invariant")


@dataclass
class Setting:
    """One engine configuration and its rounds."""

    determinism: str
    concurrency: int
    rounds: list[tuple[float, float]] = field(default_factory=list)
    """(audio seconds, wall seconds) of each round."""
    first_audio_s: list[float] = field(default_factory=list)

    def speak(self, engine: NativeEngine, requests: list[SpeechRequest], keep: bool) -> None:
        """One pass, closed loop at the setting's concurrency."""
        waiting, submitted, heard = list(requests), dict[str, float](), set[str]()
        frames = 0
        start = time.perf_counter()

        def hand_over() -> None:
            request = waiting.pop(0)
            submitted[request.id] = time.perf_counter()
            engine.submit(request)

        for _ in range(min(self.concurrency, len(waiting))):
            hand_over()
        while True:
            for chunk in engine.chunks():
                if keep and chunk.request_id not in heard and len(chunk.pcm):
                    self.first_audio_s.append(time.perf_counter() - submitted[chunk.request_id])
                heard.add(chunk.request_id)
                if chunk.final:
                    frames += chunk.frames[1]
                    if waiting:
                        hand_over()
            if not waiting:
                break
        info = engine.info()
        if keep:
            self.rounds.append((frames * info.hop_samples / info.sample_rate_hz, time.perf_counter() - start))

    @property
    def throughput(self) -> float:
        return sum(audio for audio, _ in self.rounds) / sum(wall for _, wall in self.rounds)

    def report(self) -> dict[str, object]:
        rates = [audio / wall for audio, wall in self.rounds]
        return {
            "determinism": self.determinism,
            "concurrency": self.concurrency,
            "audio_s_per_wall_s": round(self.throughput, 2),
            "by_round": [round(min(rates), 2), round(max(rates), 2)],
            "first_audio_mean_s": round(sum(self.first_audio_s) / len(self.first_audio_s), 4),
            "audio_s": round(sum(audio for audio, _ in self.rounds), 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--override", action="append", default=[])
    options = parser.parse_args()
    overrides = dict(pair.split("=", 1) for pair in options.override)
    engines = {
        level: NativeEngine(options.model, load_profile("qwen3_tts_fused_cpu", {**overrides, "determinism": level}))
        for level in LEVELS
    }
    requests = make_requests(engines["seeded"], options.rows)
    settings = [Setting(level, c) for c in options.concurrency for level in LEVELS]
    for setting in settings:
        setting.speak(engines[setting.determinism], requests[: setting.concurrency], keep=False)
    for number in range(options.rounds):
        for setting in settings if number % 2 == 0 else reversed(settings):
            setting.speak(engines[setting.determinism], requests, keep=True)
    print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(), "cpu": platform.processor()}))
    for setting in settings:
        print(json.dumps(setting.report()))
    for concurrency in options.concurrency:
        rate = {s.determinism: s.throughput for s in settings if s.concurrency == concurrency}
        ratio = rate["seeded"] / rate["batch_invariant"]
        print(json.dumps({"concurrency": concurrency, "seeded_over_batch_invariant": round(ratio, 3)}))


def make_requests(engine: NativeEngine, rows: int) -> list[SpeechRequest]:
    """The first rows of mini-en, each with its own seed."""
    info = engine.info()
    return [
        SpeechRequest(
            row.utterance_id,
            row.utterance_id,
            row.text,
            NamedVoice(info.speakers[0]),
            seed,
            info.default_max_frames,
            "auto",
            info.default_sampling,
        )
        for seed, row in enumerate(select(load_corpus("mini-en"), first=rows).rows)
    ]


if __name__ == "__main__":
    main()
