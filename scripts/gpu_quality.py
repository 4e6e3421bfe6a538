"""Does the embedded model say the same words on a GPU in bfloat16 as on a CPU in float32? Rows paired, WER by WER.

    ttsbench synth --set mini-en --seed 0 --out runs/cpu             # the CPU's half, on any machine
    python -m scripts.gpu_quality prepare runs/cpu quality.json      # its rows with their token ids
    python -m scripts.gpu_quality speak quality.json spoken          # on the GPU's machine
    python -m scripts.gpu_quality compare runs/cpu spoken            # scores both, and says where zero lies

`speak` needs torch, numpy and safetensors alone, and the checkpoint's folder: token ids travel in the file, sound comes
back as float32 in .npz files of at most 16 MiB. Text, voice, seed, limit and sampling of a row are those of the CPU's
run. `compare` writes both as 16-bit WAVs, by one formula, and hears both by one recogniser (protocol mini-en-1). Codes
are drawn from logits that differ in their last bits, so the rows differ; what must not differ is how many words they
lose. The interval is that of the corpus WER's difference, rows drawn with replacement, each with its partner.
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
    from ttsbench.records import WerRecord, WerSummary
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


def prepare(run: Path, target: Path) -> None:
    """Rows and settings of a run folder, with the token ids of their texts."""
    manifest = json.loads((run / "run.json").read_text(encoding="utf-8"))
    records = (json.loads(line) for line in (run / "requests.jsonl").read_text(encoding="utf-8").splitlines())
    rows = sorted(({key: record[key] for key in _KEYS} for record in records), key=lambda row: row["row_index"])
    model = manifest["checkpoint"]["source"]
    tokenizer = TextTokenizer.from_folder(resolve_checkpoint(model), manifest["profile"]["tokenizer_split"])
    ids = {text: tokenizer.encode(text) for text in (row["text"].strip() for row in rows)}
    template = dict(zip(TEMPLATE, ([tokenizer.assistant], [tokenizer.newline]), strict=True))
    given = {
        "model": model,
        "checkpoint_files": manifest["checkpoint"]["files"],
        "settings": {key: manifest["settings"][key] for key in ("voice", "text_layout", "sampling", "language")},
        "max_model_len": manifest["engine"]["max_model_len"],
        "ids": ids | template,
        "rows": rows,
    }
    target.write_text(json.dumps(given, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


_KEYS = ("row_index", "utterance_id", "text", "seed", "max_frames", "language_effective")


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
    tokenizer = TextTokenizer(cast(Any, KnownIds(given["ids"])), {}, "qwen2")
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
    """One per row, under its utterance id."""
    settings = given["settings"]
    said = settings["sampling"]
    talker, predictor = DrawParams(**said["talker"]), DrawParams(**said["code_predictor"])
    sampling = SamplingParams(talker, predictor, said["repetition_penalty"], said["min_frames"])
    return [
        SpeechRequest(
            id=row["utterance_id"],
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
            "utterance_id": name,
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
    """Files of `<id>.pcm` float32 [S] and `<id>.codes` int32 [F, Q], each small enough to travel; their names."""
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


def compare(run: Path, spoken: Path) -> dict[str, Any]:
    """WER of both, and the difference with its interval. Raises ValueError where they are not of the same rows."""
    from ttsbench.score.protocol import find_protocol
    from ttsbench.score.run import score_wer
    from ttsbench.score.source import RunSource
    from ttsbench.score.transcripts import TranscriptCache

    about = json.loads((spoken / ABOUT).read_text(encoding="utf-8"))
    ours, protocol, cache = RunSource.open(run), find_protocol(PROTOCOL), TranscriptCache.default()
    with tempfile.TemporaryDirectory() as folder:
        theirs = as_run(ours, about, dict(sounds(spoken, about["files"])), Path(folder))
        cpu, gpu = (score_wer(source, [protocol], cache=cache)[protocol.id] for source in (ours, theirs))
    before, words = edits(cpu.rows)
    more = edits(gpu.rows)[0] - before
    low, high = paired_interval(more, words)
    differing = [
        {"utterance_id": a.utterance_id, "text": a.reference, "cpu": a.hypothesis, "gpu": b.hypothesis}
        for a, b in zip(cpu.rows, gpu.rows, strict=True)
        if a.wer_pct != b.wer_pct
    ]
    return {
        "protocol": protocol.id,
        "rows": len(words),
        "reference_words": int(words.sum()),
        "cpu": _figures(cpu.summary, "cpu", "float32", ours.manifest.audio_s),
        "gpu": _figures(gpu.summary, about["device"], about["dtype"], theirs.manifest.audio_s),
        "difference_pct_points": round(100 * float(more.sum() / words.sum()), 3),
        "interval_pct_points": [round(low, 3), round(high, 3)],
        "zero_inside": bool(low <= 0 <= high),
        "rows_that_differ": differing,
    }


def sounds(folder: Path, files: Sequence[str]) -> Iterator[tuple[str, np.ndarray]]:
    """float32 PCM by utterance id."""
    for file in files:
        with np.load(folder / file) as arrays:
            yield from ((key.removesuffix(".pcm"), arrays[key]) for key in arrays.files if key.endswith(".pcm"))


def as_run(cpu: RunSource, about: Mapping[str, Any], pcm: Mapping[str, np.ndarray], folder: Path) -> RunSource:
    """The spoken rows as the scorer reads a run: the CPU's records with this sound in place of theirs."""
    from ttsbench.records import RowStatus, RunFolder, sha256_of
    from ttsbench.records.wav import count_clipped, to_pcm16, write_wav

    if about["checkpoint_files"] != (cpu.manifest.checkpoint and cpu.manifest.checkpoint.files):
        raise ValueError("the two were not spoken by the same checkpoint")
    ends = {row["utterance_id"]: row for row in about["rows"]}
    rate, rows = about["sample_rate_hz"], {}
    for index, record in cpu.log.rows.items():
        if record.utterance_id not in pcm:
            raise ValueError(f"row {record.utterance_id} was not spoken")
        sound, end = pcm[record.utterance_id], ends[record.utterance_id]
        if end["finish"] not in ("stop", "length"):
            raise ValueError(f"row {record.utterance_id} {end['finish']}: {end['error']}")
        path = folder / Path(record.wav_path or record.utterance_id).name
        data = write_wav(path, to_pcm16(sound), rate)
        rows[index] = record.revised(
            status=RowStatus.OK if end["finish"] == "stop" else RowStatus.LENGTH, finish_reason=end["finish"],
            frames=end["frames"], frames_generated=end["frames"], samples=len(sound), duration_s=len(sound) / rate,
            wav_path=path.name, wav_sha256=sha256_of(data), clipped_samples=count_clipped(sound), chunks=end["frames"],
        )  # fmt: skip
    manifest = cpu.manifest.model_copy(update={"audio_s": sum(len(sound) for sound in pcm.values()) / rate})
    return replace(cpu, folder=RunFolder(folder), manifest=manifest, log=replace(cpu.log, rows=rows))


def edits(rows: Sequence[WerRecord]) -> tuple[np.ndarray, np.ndarray]:
    """Errors and reference words of each row. Raises ValueError for a row on which the recogniser broke."""
    pairs = []
    for row in rows:
        if row.substitutions is None or row.deletions is None or row.insertions is None or row.reference_words is None:
            raise ValueError(f"row {row.row_index} has no WER: {row.cause_detail}")
        pairs.append((row.substitutions + row.deletions + row.insertions, row.reference_words))
    errors, words = np.array(pairs).T
    return errors, words


def paired_interval(more_errors: np.ndarray, words: np.ndarray) -> tuple[float, float]:
    """Interval of 100 * sum(more errors) / sum(words), in points, rows drawn as `score.bootstrap` draws them."""
    from ttsbench.score.bootstrap import LEVEL_PCT, RESAMPLES, SEED

    drawn = np.random.default_rng(SEED).integers(0, len(words), (RESAMPLES, len(words)))
    tail = (100 - LEVEL_PCT) / 2
    low, high = np.percentile(100 * more_errors[drawn].sum(axis=1) / words[drawn].sum(axis=1), [tail, 100 - tail])
    return float(low), float(high)


def _figures(summary: WerSummary, device: str, dtype: str, audio_s: float) -> dict[str, Any]:
    stats = summary.all_rows
    assert stats is not None  # every row has a WER
    assert stats.corpus_pct is not None
    return {
        "device": device,
        "dtype": dtype,
        "audio_s": round(audio_s, 2),
        "corpus_wer_pct": round(stats.corpus_pct, 3),
        "sentence_mean_wer_pct": round(stats.sentence_mean_pct, 3),
        "errors": [stats.substitutions, stats.deletions, stats.insertions],
    }


def verdict(found: Mapping[str, Any]) -> str:
    """For people."""
    low, high = found["interval_pct_points"]
    where = "zero lies inside: no difference shown" if found["zero_inside"] else "zero lies outside: they differ"
    lines = [
        f"{side}: corpus WER {found[side]['corpus_wer_pct']:.2f} %, {found[side]['device']} in {found[side]['dtype']}"
        for side in ("cpu", "gpu")
    ]
    difference = (
        f"difference {found['difference_pct_points']:+.2f} points, 95 % from {low:+.2f} to {high:+.2f}; {where}"
    )
    return "\n".join([*lines, f"{found['rows']} rows, {found['reference_words']} words; {difference}"])


def main() -> int:
    options = parse(sys.argv[1:])
    match options.half:
        case "prepare":
            prepare(options.run, options.target)
        case "speak":
            device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
            return 0 if speak(options.source, options.folder, device, options.dtype, options.concurrency) else 1
        case "compare":
            found = compare(options.run, options.folder)
            print(json.dumps(found, ensure_ascii=False))
            print(verdict(found))
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    halves = parser.add_subparsers(dest="half", required=True)
    one = halves.add_parser("prepare", help="make the file that travels to the GPU's machine")
    one.add_argument("run", type=Path, help="run folder of the CPU")
    one.add_argument("target", type=Path, help="JSON file to write")
    two = halves.add_parser("speak", help="speak its rows")
    two.add_argument("source", type=Path, help="what prepare wrote")
    two.add_argument("folder", type=Path, help="folder to make for sound and codes")
    two.add_argument("--device", help="by default cuda where there is one")
    two.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    two.add_argument("--concurrency", type=int, default=16)
    three = halves.add_parser("compare", help="score both")
    three.add_argument("run", type=Path, help="run folder of the CPU")
    three.add_argument("folder", type=Path, help="what speak wrote")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
