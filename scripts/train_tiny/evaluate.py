"""Held-out evaluation of `tiny` and `tiny-base`: the tables of their model cards, and whether the lines are met.

    python -m scripts.train_tiny.evaluate --checkpoint TINY --base TINY_BASE --teacher TEACHER --out OUT

TEACHER is the folder that `evaluate_teacher` wrote. `tiny` speaks mini-en in both text layouts, its voices by turns
(every row by every voice with --every-voice); `tiny-base` speaks the teacher's cloning list, with and without the
clips' words. The teacher stands beside them under the same protocol. Everything is at the shipped defaults; a call
that was broken off is made again with the same options.

Writes `OUT/report.md`, `OUT/report.json`, one run folder per run, and spectrograms. The exit status is 1 when a line is
not met. On two cores 64 rows take about a minute: half to speak, half to judge.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.train_tiny import evaluate_report as report
from scripts.train_tiny.evaluate_figures import Measured, References, figures, measure
from scripts.train_tiny.evaluate_sound import draw
from scripts.train_tiny.evaluate_takes import PROTOCOL, TEACHER, Take, speak, takes_of, teacher_takes
from scripts.train_tiny.evaluate_teacher import MINI_EN, SEEN
from scripts.train_tiny.evaluate_voices import Dnsmos, EmbeddedJudge, IndependentJudge, Judge
from ttsbench.adapters.native import NativeEngine
from ttsbench.core import NamedVoice, TextLayout
from ttsbench.corpus import Corpus, load_corpus, select
from ttsbench.experiment.rows import RowClip
from ttsbench.models.source import checkpoint_hashes, resolve_checkpoint
from ttsbench.profile import load_profile
from ttsbench.records import combined_sha256, write_atomic
from ttsbench.score.audio import decode_wav

PROFILE = "qwen3_tts_fused_cpu"
DNSMOS_EVERY = 3
PICTURES = 3
"""Rows of each voice that are drawn."""


@dataclass(frozen=True)
class Options:
    """What was asked."""

    out: Path
    teacher: Path
    seeds: tuple[int, ...]
    layouts: tuple[TextLayout, ...]
    every_voice: bool
    first: int | None


@dataclass(frozen=True)
class Ears:
    """Who judges."""

    judges: tuple[Judge, ...]
    dnsmos: Dnsmos | None

    @property
    def names(self) -> list[str]:
        return [judge.name for judge in self.judges]

    def measure(self, takes: Sequence[Take]) -> list[Measured]:
        """Every take, on all cores; quality of every third only, since that costs most."""

        def one(number: int) -> Measured:
            return measure(takes[number], self.judges, self.dnsmos if number % DNSMOS_EVERY == 0 else None)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(one, range(len(takes))))


@dataclass(frozen=True)
class Result:
    """One checkpoint's tables by title, and its lines."""

    checkpoint_sha256: str
    tables: Mapping[str, Mapping[str, report.Figures]]
    musts: Sequence[report.Must]


def evaluate_named(model: str, options: Options, ears: Ears) -> Result:
    """`tiny`: named voices."""
    corpus = load_corpus(MINI_EN)
    engine = NativeEngine(model, load_profile(PROFILE))
    voices = engine.info().speakers
    taught = ears.measure(teacher_takes(options.teacher, corpus, voices, options.out / "teacher.json"))
    takes = ears.measure(_speak_named(engine, corpus, options))
    means = References.of({v: [one.vectors for one in taught if one.take.voice == v] for v in voices})
    seconds = {(one.take.voice, one.take.row): one.seconds for one in taught if one.seconds is not None}

    def summed(manner: str, voice: str | None = None) -> dict[str, Any]:
        some = [m for m in (*takes, *taught) if m.take.manner == manner and voice in (None, m.take.voice)]
        return figures(some, means, seconds, among=manner == TEACHER)

    manners = [*options.layouts, TEACHER]
    tables = {"tiny": {manner: summed(manner) for manner in manners}}
    tables |= {f"tiny, {manner}, by voice": {voice: summed(manner, voice) for voice in voices} for manner in manners}
    musts = [must for layout in options.layouts for must in report.musts_of_all(layout, tables["tiny"][layout])]
    for layout in options.layouts:
        for voice, group in tables[f"tiny, {layout}, by voice"].items():
            musts += report.musts_of_voice(f"{layout}, {voice}", group, report.NAMED_PCT, ears.names)
    _draw([*takes, *taught], options.out / "spectrograms" / "tiny", PICTURES)
    return Result(_sha256(model), tables, musts)


def _speak_named(engine: NativeEngine, corpus: Corpus, options: Options) -> list[Take]:
    """Every layout and seed, the voices by turns or each all of it."""
    voices = engine.info().speakers
    takes = []
    for layout in options.layouts:
        for seed in options.seeds:
            for number, voice in enumerate(voices):
                rows = corpus.rows[: options.first]
                ids = [row.utterance_id for row in (rows if options.every_voice else rows[number :: len(voices)])]
                folder = options.out / "tiny" / f"{layout}-{seed}-{voice}"
                _say(folder)
                speak(engine, select(corpus, ids=ids), NamedVoice(voice), seed, folder, layout)
                takes += takes_of(folder, layout, dict.fromkeys(ids, voice))
    return takes


def evaluate_base(model: str, options: Options, ears: Ears) -> Result:
    """`tiny-base`: voices copied from clips, with the words of the clip (in context) and without."""
    corpus = load_corpus(options.teacher / "cloning" / "en" / "meta.lst")
    corpus = corpus if options.first is None else select(corpus, first=options.first)
    engine = NativeEngine(model, load_profile(PROFILE))
    clips = {row.utterance_id: row.prompt_audio for row in corpus.rows if row.prompt_audio is not None}
    voices = {row: clip.stem for row, clip in clips.items()}
    spoken = []
    for manner, in_context in (("x_vector", False), ("in_context", True)):
        for seed in options.seeds:
            folder = options.out / "tiny-base" / f"{manner}-{seed}"
            _say(folder)
            speak(engine, corpus, RowClip(in_context), seed, folder)
            spoken += takes_of(folder, manner, voices)
    takes = ears.measure(spoken)
    sounds = {clip.stem: decode_wav(clip.read_bytes()) for clip in clips.values()}
    references = References.of({v: [{j.name: j.embed(sound) for j in ears.judges}] for v, sound in sounds.items()})

    def summed(manner: str, seen: bool | None = None) -> dict[str, Any]:
        some = [m for m in takes if m.take.manner == manner and seen in (None, m.take.voice in SEEN)]
        return figures(some, references, {})

    tables = {"tiny-base": {manner: summed(manner) for manner in ("x_vector", "in_context")}}
    musts = [must for manner, group in tables["tiny-base"].items() for must in report.musts_of_all(manner, group)]
    for manner in ("x_vector", "in_context"):
        parts = {name: summed(manner, seen) for name, seen in (("seen", True), ("unseen", False))}
        tables[f"tiny-base, {manner}, by whether training had heard the voice"] = parts
        for name, group in parts.items():
            musts += report.musts_of_voice(f"{manner}, {name}", group, report.CLONED_PCT[name], ears.names)
    _draw(takes, options.out / "spectrograms" / "tiny-base", 1)
    return Result(_sha256(model), tables, musts)


def _draw(takes: Sequence[Measured], folder: Path, rows: int) -> None:
    """The first rows of each voice, every manner of speaking one below the other."""
    sounding = [one.take for one in takes if one.take.wav is not None]
    for voice in sorted({take.voice for take in sounding if take.manner != TEACHER}):
        own = [take for take in sounding if take.voice == voice]
        for row in list(dict.fromkeys(take.row for take in own if take.manner != TEACHER))[:rows]:
            same = {take.manner: take for take in reversed(own) if take.row == row}
            sounds = {m: decode_wav(t.wav.read_bytes()) for m, t in sorted(same.items()) if t.wav is not None}
            draw(folder / f"{voice}-{row}.png", f"{voice}: {next(iter(same.values())).reference}", sounds)


def _sha256(model: str) -> str:
    return combined_sha256(checkpoint_hashes(resolve_checkpoint(model)))


def _say(what: object) -> None:
    print(what, file=sys.stderr, flush=True)


def write_report(out: Path, results: Mapping[str, Result], ears: Ears, options: Options) -> bool:
    """Both files; True if every line is met."""
    musts = [must for result in results.values() for must in result.musts]
    asked = {
        "seeds": options.seeds, "every_voice": options.every_voice, "rows": options.first or "all",
        "judges": ears.names, "dnsmos": ears.dnsmos is not None, "protocol": PROTOCOL.id, "profile": PROFILE,
    }  # fmt: skip
    data = {
        "options": asked,
        "lines": [must.to_json() for must in musts],
        "checkpoints": {n: {"sha256": r.checkpoint_sha256, "tables": r.tables} for n, r in results.items()},
    }
    write_atomic(out / "report.json", json.dumps(data, indent=1).encode())
    parts = ["## Lines", report.must_table(musts)]
    for result in results.values():
        for title, groups in result.tables.items():
            parts += [f"## {title}", report.table(groups)]
    text = "\n\n".join(parts) + "\n"
    write_atomic(out / "report.md", text.encode())
    print(text)
    return all(must.met for must in musts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", help="folder or name of a checkpoint with named voices")
    parser.add_argument("--base", help="folder of a Base checkpoint; its speaker encoder judges all voices too")
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--layouts", type=TextLayout, nargs="+", default=list(TextLayout))
    parser.add_argument("--every-voice", action="store_true", help="each named voice speaks every row")
    parser.add_argument("--first", type=int, help="only the first rows")
    parser.add_argument("--dnsmos", type=Path, help="sig_bak_ovr.onnx of speechmos 0.0.1.1 (dnsmos_models)")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    options = Options(
        asked.out, asked.teacher, tuple(asked.seeds), tuple(asked.layouts), asked.every_voice, asked.first
    )
    judges: list[Judge] = [IndependentJudge()]
    if asked.base is not None:
        judges.insert(0, EmbeddedJudge(resolve_checkpoint(asked.base)))
    ears = Ears(tuple(judges), None if asked.dnsmos is None else Dnsmos(asked.dnsmos))
    results = {}
    if asked.checkpoint is not None:
        results["tiny"] = evaluate_named(asked.checkpoint, options, ears)
    if asked.base is not None:
        results["tiny-base"] = evaluate_base(asked.base, options, ears)
    sys.exit(0 if write_report(asked.out, results, ears, options) else 1)


if __name__ == "__main__":
    main()
