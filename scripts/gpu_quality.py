"""Does the embedded model say the same words on a GPU in bfloat16 as on a CPU in float32? Rows paired, WER by WER.

    ttsbench synth --set mini-en --seed 0 --out runs/cpu0            # the CPU's half on any machine, some seeds
    python -m scripts.gpu_quality prepare quality.json runs/cpu*     # their rows with their token ids
    python -m scripts.gpu_quality speak quality.json spoken          # on the GPU's machine
    python -m scripts.gpu_quality compare spoken runs/cpu*           # scores both, and says where zero lies

`speak` needs torch, numpy and safetensors alone, and the checkpoint's folder: token ids travel in the file, sound comes
back as float32 in .npz files of at most 16 MiB. Text, voice, seed, limit and sampling of a row are those of the CPU's
run. `compare` writes both as 16-bit WAVs, by one formula, and hears both by one recogniser (protocol mini-en-1). Codes
are drawn from logits that differ in their last bits, so the rows differ; what must not differ is how many words they
lose. The interval is that of the corpus WER's difference: sentences are drawn with replacement, each with its partner
and with all of its seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from scripts.bench_machine import machine
from ttsbench.core import AudioChunk, DrawParams, Finish, NamedVoice, SamplingParams, SpeechRequest, TextLayout
from ttsbench.engine.fused import FusedEngine, FusedOptions
from ttsbench.engine.runner import StepOutput
from ttsbench.engine.scheduler import StepPlan
from ttsbench.models.qwen3_tts.checkpoint import Checkpoint
from ttsbench.models.qwen3_tts.prompt import Conditioning, Prompt
from ttsbench.models.qwen3_tts.tokenizer import TextTokenizer
from ttsbench.models.source import checkpoint_hashes, resolve_checkpoint

if TYPE_CHECKING:
    from ttsbench.records import WerRecord
    from ttsbench.score.source import RunSource

ROOT = Path(__file__).resolve().parents[1]
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
FILE_BYTES = 15 << 20
PROTOCOL = "mini-en-1"
ABOUT = "spoken.json"
TEMPLATE = ("assistant", "\n")
"""Pieces that every prompt has."""


@dataclass(frozen=True)
class Heard:
    """One row as it came out of the engine."""

    pcm: np.ndarray
    codes: np.ndarray
    """int32 [F, Q]"""
    finish: Finish


# prepare


def prepare(target: Path, runs: Sequence[Path]) -> None:
    """Rows and settings of run folders that differ in their seed alone, with the token ids of their texts."""
    shared: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        manifest = json.loads((run / "run.json").read_text(encoding="utf-8"))
        settings = {key: manifest["settings"][key] for key in ("voice", "text_layout", "sampling", "language")}
        shared.append(
            {
                "model": manifest["checkpoint"]["source"],
                "checkpoint_files": manifest["checkpoint"]["files"],
                "tokenizer_split": manifest["profile"]["tokenizer_split"],
                "settings": settings,
                "max_model_len": manifest["engine"]["max_model_len"],
            }
        )
        records = map(json.loads, (run / "requests.jsonl").read_text(encoding="utf-8").splitlines())
        found = [{"key": key_of(number, record["utterance_id"]), **{k: record[k] for k in _KEPT}} for record in records]
        rows += sorted(found, key=lambda row: row["row_index"])
    if any(one != shared[0] for one in shared):
        raise SystemExit("expected runs of one checkpoint under one setting, their seeds apart")
    tokenizer = TextTokenizer.from_folder(resolve_checkpoint(shared[0]["model"]), shared[0]["tokenizer_split"])
    ids = {text: tokenizer.encode(text) for text in (row["text"].strip() for row in rows)}
    template = dict(zip(TEMPLATE, ([tokenizer.assistant], [tokenizer.newline]), strict=True))
    given = {**shared[0], "ids": ids | template, "rows": rows}
    target.write_text(json.dumps(given, ensure_ascii=False) + "\n", encoding="utf-8")


def key_of(number: int, utterance_id: str) -> str:
    """Names a row of one of several runs."""
    return f"{number}/{utterance_id}"


_KEPT = ("row_index", "utterance_id", "text", "seed", "max_frames", "language_effective")


# speak


class KnownIds:
    """Stands for the library behind a `TextTokenizer`, for texts whose ids came along."""

    def __init__(self, ids: Mapping[str, list[int]]) -> None:
        self.known = ids
        self.ids: list[int] = []

    def encode(self, text: str, add_special_tokens: bool) -> KnownIds:
        assert not add_special_tokens
        self.ids = self.known[text]
        return self


class Recorder(FusedEngine):
    """An engine that keeps the codes of every frame it emits."""

    def listen(self) -> dict[str, list[np.ndarray]]:
        """Codes by request id, from now on."""
        self.codes: dict[str, list[np.ndarray]] = {}
        return self.codes

    def _commit(self, plan: StepPlan, output: StepOutput) -> None:
        before = [(sequence, sequence.frames) for sequence in plan.finishing]
        super()._commit(plan, output)
        for row, (sequence, frames) in enumerate(before):
            if sequence.frames > frames:
                self.codes.setdefault(sequence.request.id, []).append(output.codes[row])


def build(given: Mapping[str, Any], device: torch.device, dtype: torch.dtype, slots: int) -> Recorder:
    """The engine over the checkpoint that the rows were spoken with."""
    folder = resolve_checkpoint(given["model"])
    if (found := checkpoint_hashes(folder)) != given["checkpoint_files"]:
        differing = sorted(found.items() ^ given["checkpoint_files"].items())
        raise SystemExit(f"{folder} is not the checkpoint of the run: {', '.join({name for name, _ in differing})}")
    tokenizer = TextTokenizer(cast(Any, KnownIds(given["ids"])), {}, given["tokenizer_split"])
    checkpoint = Checkpoint.load(folder, device, dtype, tokenizer=tokenizer)
    prompts, speaker = checkpoint.prompts, given["settings"]["voice"]["speaker"]

    @torch.inference_mode()
    def prompt(request: SpeechRequest) -> Prompt:
        assert request.text_layout is not None
        voice = Conditioning(speaker=prompts.named_speaker(speaker))
        return prompts.build(request.text, request.language, request.text_layout, voice)

    codec = checkpoint.codec
    options = FusedOptions(max_num_seqs=slots, max_model_len=given["max_model_len"])
    rate = codec.config.sample_rate_hz
    return Recorder(checkpoint.config, checkpoint.model.talker, codec.decoder, rate, prompt, options)


def requests(given: Mapping[str, Any]) -> list[SpeechRequest]:
    """One per row, under its key."""
    settings = given["settings"]
    said = settings["sampling"]
    talker, predictor = DrawParams(**said["talker"]), DrawParams(**said["code_predictor"])
    sampling = SamplingParams(talker, predictor, said["repetition_penalty"], said["min_frames"])
    return [
        SpeechRequest(
            id=row["key"],
            utterance_id=row["utterance_id"],
            text=row["text"],
            voice=NamedVoice(settings["voice"]["speaker"]),
            seed=row["seed"],
            max_frames=row["max_frames"],
            language=row["language_effective"],
            sampling=sampling,
            text_layout=TextLayout(settings["text_layout"]),
        )
        for row in given["rows"]
    ]


def converse(engine: Recorder, asked: Sequence[SpeechRequest], concurrency: int) -> dict[str, Heard]:
    """Speak all, at most so many at once."""
    codes, waiting = engine.listen(), deque(asked)
    chunks: dict[str, list[AudioChunk]] = {}
    heard: dict[str, Heard] = {}
    for _ in range(min(concurrency, len(waiting))):
        engine.submit(waiting.popleft())
    for chunk in engine.chunks():
        chunks.setdefault(chunk.request_id, []).append(chunk)
        if chunk.finish is not None:
            pcm = np.concatenate([part.pcm for part in chunks.pop(chunk.request_id)])
            frames = np.array(codes.pop(chunk.request_id, []), dtype=np.int32)
            heard[chunk.request_id] = Heard(pcm, frames, chunk.finish)
            if waiting:
                engine.submit(waiting.popleft())
    return heard


def speak(source: Path, folder: Path, device: torch.device, dtype: str, concurrency: int) -> bool:
    """Write the sound and codes of every row; whether all came to their end, with as much sound as frames."""
    given = json.loads(source.read_text(encoding="utf-8"))
    folder.mkdir(parents=True)
    if device.type == "cpu":
        torch.set_num_threads(1)  # the embedded model is too small to split an operation
    began = time.monotonic()
    engine = build(given, device, DTYPES[dtype], concurrency)
    built = time.monotonic()
    heard = converse(engine, requests(given), concurrency)
    spent = time.monotonic() - built
    rows = [
        {
            "key": name,
            "frames": len(row.codes),
            "samples": len(row.pcm),
            "finish": row.finish.reason.value,
            "error": row.finish.detail,
            "whole": len(row.codes) * engine.runner.codec.decoder.hop == len(row.pcm),
        }
        for name, row in heard.items()
    ]
    about = {
        "machine": machine(ROOT),
        "device": str(device),
        "dtype": dtype,
        "concurrency": concurrency,
        "graphs": engine.runner.options.graphs,
        "sample_rate_hz": engine.sample_rate_hz,
        "checkpoint_files": given["checkpoint_files"],
        "built_s": round(built - began, 2),
        "spoken_s": round(spent, 2),
        "stats": engine.stats(),
        "files": write_sound(folder, heard),
        "rows": rows,
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=1, default=str) + "\n", encoding="utf-8")
    ended = [row for row in rows if row["finish"] in ("stop", "length") and row["whole"]]
    print(json.dumps({key: about[key] for key in ("device", "dtype", "concurrency", "graphs", "built_s", "spoken_s")}))
    print(json.dumps({"rows": len(rows), "well": len(ended), "frames": sum(row["frames"] for row in rows)}))
    return len(ended) == len(given["rows"])


def write_sound(folder: Path, heard: Mapping[str, Heard]) -> list[str]:
    """Files of `<key>.pcm` float32 [S] and `<key>.codes` int32 [F, Q], each small enough to travel; their names."""
    names: list[str] = []
    part: dict[str, np.ndarray] = {}
    for name, row in [*heard.items(), ("", None)]:
        new = {} if row is None else {f"{name}.pcm": row.pcm, f"{name}.codes": row.codes}
        size = sum(array.nbytes for array in (*part.values(), *new.values()))
        if part and (row is None or size > FILE_BYTES):
            names.append(f"sound-{len(names)}.npz")
            np.savez_compressed(folder / names[-1], **cast(Any, part))
            part = {}
        part |= new
    return names


# compare


def compare(spoken: Path, runs: Sequence[Path]) -> dict[str, Any]:
    """WER of both, and the difference with its interval. Raises ValueError where they are not of the same rows."""
    from ttsbench.score.source import RunSource

    about = json.loads((spoken / ABOUT).read_text(encoding="utf-8"))
    pcm = dict(sounds(spoken, about["files"]))
    cpu: list[tuple[WerRecord, ...]] = []
    gpu: list[tuple[WerRecord, ...]] = []
    for number, run in enumerate(runs):
        ours = RunSource.open(run)
        with tempfile.TemporaryDirectory() as folder:
            theirs = as_run(ours, number, about, pcm, Path(folder))
            cpu.append(judged(ours))
            gpu.append(judged(theirs))
    before, words = edits(cpu)
    more = edits(gpu)[0] - before
    low, high = paired_interval(more.sum(axis=0), words.sum(axis=0))
    differing = [
        {"seed": number, "utterance_id": a.utterance_id, "text": a.reference, "cpu": a.hypothesis, "gpu": b.hypothesis}
        for number, (ours, theirs) in enumerate(zip(cpu, gpu, strict=True))
        for a, b in zip(ours, theirs, strict=True)
        if a.wer_pct != b.wer_pct
    ]
    return {
        "protocol": PROTOCOL,
        "sentences": words.shape[1],
        "seeds": words.shape[0],
        "reference_words": int(words.sum()),
        "cpu": {"device": "cpu", "dtype": "float32", **_figures(cpu)},
        "gpu": {"device": about["device"], "dtype": about["dtype"], **_figures(gpu)},
        "difference_pct_points": round(100 * float(more.sum() / words.sum()), 3),
        "interval_pct_points": [round(low, 3), round(high, 3)],
        "zero_inside": bool(low <= 0 <= high),
        "rows_that_differ": differing,
    }


def judged(source: RunSource) -> tuple[WerRecord, ...]:
    """Every row under the protocol, transcripts kept where `ttsbench score` keeps them."""
    from ttsbench.score.protocol import find_protocol
    from ttsbench.score.run import score_wer
    from ttsbench.score.transcripts import TranscriptCache

    return score_wer(source, [find_protocol(PROTOCOL)], cache=TranscriptCache.default())[PROTOCOL].rows


def sounds(folder: Path, files: Sequence[str]) -> Iterator[tuple[str, np.ndarray]]:
    """float32 PCM by key."""
    for file in files:
        with np.load(folder / file) as arrays:
            yield from ((key.removesuffix(".pcm"), arrays[key]) for key in arrays.files if key.endswith(".pcm"))


def as_run(
    cpu: RunSource, number: int, about: Mapping[str, Any], pcm: Mapping[str, np.ndarray], folder: Path
) -> RunSource:
    """The rows spoken for run `number` as the scorer reads a run: the CPU's records with this sound for theirs."""
    from ttsbench.records import RowStatus, RunFolder, sha256_of
    from ttsbench.records.wav import count_clipped, to_pcm16, write_wav

    if about["checkpoint_files"] != (cpu.manifest.checkpoint and cpu.manifest.checkpoint.files):
        raise ValueError("the two were not spoken by the same checkpoint")
    ends = {row["key"]: row for row in about["rows"]}
    rate, rows = about["sample_rate_hz"], {}
    for index, record in cpu.log.rows.items():
        key = key_of(number, record.utterance_id)
        if key not in ends or ends[key]["finish"] not in ("stop", "length"):
            raise ValueError(f"row {key} was not spoken: {ends.get(key, 'not asked for')}")
        sound, end = pcm[key], ends[key]
        path = folder / f"{index}.wav"
        data = write_wav(path, to_pcm16(sound), rate)
        rows[index] = record.revised(
            status=RowStatus.OK if end["finish"] == "stop" else RowStatus.LENGTH, finish_reason=end["finish"],
            frames=end["frames"], frames_generated=end["frames"], samples=len(sound), duration_s=len(sound) / rate,
            wav_path=path.name, wav_sha256=sha256_of(data), clipped_samples=count_clipped(sound), chunks=end["frames"],
        )  # fmt: skip
    return replace(cpu, folder=RunFolder(folder), log=replace(cpu.log, rows=rows))


def edits(runs: Sequence[Sequence[WerRecord]]) -> tuple[np.ndarray, np.ndarray]:
    """Errors and reference words [runs, rows]. Raises ValueError for a row on which the recogniser broke."""
    errors, words = [], []
    for rows in runs:
        if broken := [row for row in rows if row.wer_pct is None]:
            raise ValueError(f"row {broken[0].row_index} has no WER: {broken[0].cause_detail}")
        errors.append([(row.substitutions or 0) + (row.deletions or 0) + (row.insertions or 0) for row in rows])
        words.append([row.reference_words or 0 for row in rows])
    return np.array(errors), np.array(words)


def paired_interval(more_errors: np.ndarray, words: np.ndarray) -> tuple[float, float]:
    """Interval of 100 * sum(more errors) / sum(words), in points, rows drawn as `score.bootstrap` draws them."""
    from ttsbench.score.bootstrap import LEVEL_PCT, RESAMPLES, SEED

    drawn = np.random.default_rng(SEED).integers(0, len(words), (RESAMPLES, len(words)))
    tail = (100 - LEVEL_PCT) / 2
    low, high = np.percentile(100 * more_errors[drawn].sum(axis=1) / words[drawn].sum(axis=1), [tail, 100 - tail])
    return float(low), float(high)


def _figures(runs: Sequence[Sequence[WerRecord]]) -> dict[str, Any]:
    errors, words = edits(runs)
    every = [row for rows in runs for row in rows]
    return {
        "corpus_wer_pct": round(100 * float(errors.sum() / words.sum()), 3),
        "by_seed": [round(100 * float(e.sum() / w.sum()), 3) for e, w in zip(errors, words, strict=True)],
        "audio_s": round(sum(row.audio_s or 0.0 for row in every), 2),
        "charged": sum(row.cause is not None for row in every),
    }


def verdict(found: Mapping[str, Any]) -> str:
    """For people."""
    low, high = found["interval_pct_points"]
    where = "zero lies inside: no difference shown" if found["zero_inside"] else "zero lies outside: they differ"
    sides = []
    for side in ("cpu", "gpu"):
        said, seeds = found[side], " / ".join(f"{wer:.2f}" for wer in found[side]["by_seed"])
        ran = f"{said['device']} in {said['dtype']}"
        sides.append(f"{side}: corpus WER {said['corpus_wer_pct']:.2f} % (by seed {seeds}), {ran}")
    size = f"{found['sentences']} sentences, {found['seeds']} seeds, {found['reference_words']} words"
    difference = f"difference {found['difference_pct_points']:+.2f} points, 95 % from {low:+.2f} to {high:+.2f}"
    return "\n".join([*sides, f"{size}: {difference}; {where}"])


def main() -> int:
    options = parse(sys.argv[1:])
    match options.half:
        case "prepare":
            prepare(options.target, options.run)
        case "speak":
            device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
            return 0 if speak(options.source, options.folder, device, options.dtype, options.concurrency) else 1
        case "compare":
            found = compare(options.folder, options.run)
            print(json.dumps(found, ensure_ascii=False))
            print(verdict(found))
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    halves = parser.add_subparsers(dest="half", required=True)
    one = halves.add_parser("prepare", help="make the file that travels to the GPU's machine")
    one.add_argument("target", type=Path, help="JSON file to write")
    one.add_argument("run", type=Path, nargs="+", help="run folders of the CPU, one per seed")
    two = halves.add_parser("speak", help="speak its rows")
    two.add_argument("source", type=Path, help="what prepare wrote")
    two.add_argument("folder", type=Path, help="folder to make for sound and codes")
    two.add_argument("--device", help="by default cuda where there is one")
    two.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    two.add_argument("--concurrency", type=int, default=16)
    three = halves.add_parser("compare", help="score both")
    three.add_argument("folder", type=Path, help="what speak wrote")
    three.add_argument("run", type=Path, nargs="+", help="run folders of the CPU, as given to prepare")
    options = parser.parse_args(arguments)
    needed = [run / "run.json" for run in getattr(options, "run", ())]
    needed += {"speak": lambda: [options.source], "compare": lambda: [options.folder / ABOUT]}.get(options.half, list)()
    if missing := [str(path) for path in needed if not path.is_file()]:
        parser.error(f"{options.half} reads files that are not there: {', '.join(missing)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
