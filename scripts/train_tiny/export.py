"""Trained pieces -> one checkpoint folder in the published layout, in half precision, or an error and no folder.

    python -m scripts.train_tiny.export OUT --kind tiny --text TEXT --talker talker.safetensors \\
        --codec codec.safetensors --encoder encoder.safetensors --record record.json
    python -m scripts.train_tiny.export OUT --kind tiny-base --text TEXT --random 0

A piece is the state dict of one ttsbench module: talker, codec decoder (`--codec`), codec encoder and, for tiny-base,
speaker encoder. Names may carry the published prefix (`talker.`, `decoder.`, ...) or lack it. The folder is written
beside OUT, loaded as the engine loads it, and only then renamed. `--random` makes up the pieces, for rehearsals.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import string
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from scripts.train_tiny import config as sizes
from scripts.train_tiny.config import Kind
from ttsbench.core import InvalidInput, Problem
from ttsbench.models.qwen3_tts.checkpoint import CODEC_FOLDER, Checkpoint, Qwen3TTS
from ttsbench.models.qwen3_tts.codec import Codec
from ttsbench.models.qwen3_tts.codec_config import CodecConfig
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig, read_json
from ttsbench.models.qwen3_tts.speaker_encoder import SpeakerEncoderConfig
from ttsbench.models.qwen3_tts.weights import SINGLE_FILE, fit_problems

PREFIXES = {"talker": "talker.", "speaker": "speaker_encoder.", "codec": "decoder.", "encoder": "encoder."}
"""Option of a piece -> where its names stand in the published files."""
MAIN_PIECES = ("talker", "speaker")
TOKENIZER_FILES = ("vocab.json", "merges.txt", "tokenizer_config.json", "tokenizer.json")
CARD = Path(__file__).with_name("card.md")
PROTOCOL = {
    Kind.TINY: """
All 64 rows of `mini-en`, at the shipped defaults, with seeds 0, 1 and 2. The voices take turns, so each speaks 16
sentences, and other ones than the next voice: compare voices in the teacher's columns, where each speaks all 64. Word
errors are those of protocol `mini-en-1`, whose recogniser is Whisper tiny.en; the teacher speaks at its own pace. A
voice is told by the nearest of the means of the teacher's four.
""",
    Kind.BASE: """
The texts of `mini-en`'s 64 rows, at the shipped defaults, with seeds 0, 1 and 2, each cloned from one of 16 clips in
turn: 8 of voices that training heard, 8 of voices it did not; in the streaming text layout. Word errors are those of
protocol `mini-en-1`, whose recogniser is Whisper tiny.en. A voice is told by the nearest of the 16 clips.

The judges disagree about voices that training did not hear: what the embedded one takes for the clip's voice every
time, the independent one does in about half of the rows. Take such voices for alike, not for the same.
""",
}
"""How the evaluation in a card was made."""
CLIPS = (
    "that of a clip of English with sound up to 11 kHz: one sentence of 2 to 5 s in context; longer ones, up to 30 s, "
    "and shorter ones by speaker vector alone. A clip at 16 kHz loses its voice; in context, several sentences in one "
    "clip lose the words, from 12 s on without end"
)

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Sampling:
    """Defaults that travel with the checkpoint, as `generation_config.json` names them."""

    temperature: float = 0.6
    top_k: int = 20
    subtalker_temperature: float = 0.6
    subtalker_top_k: int = 20
    repetition_penalty: float = 1.0
    max_new_tokens: int = 256

    def as_json(self) -> dict[str, Any]:
        """The file's content. Both kinds speak best with the streaming text layout, hence the last entry."""
        fixed = {"do_sample": True, "top_p": 1.0, "subtalker_dosample": True, "subtalker_top_p": 1.0}
        return {**fixed, **vars(self), "non_streaming_mode": False}


@dataclass(frozen=True)
class Parts:
    """What a checkpoint is made of. Tensors bear their published names."""

    kind: Kind
    text: Path
    main: Tensors
    codec: Tensors
    sampling: Sampling
    record: dict[str, Any] = field(default_factory=dict)
    """Free JSON about the training: seeds, versions, licences, times, figures."""


def read_pieces(files: Mapping[str, Path]) -> tuple[Tensors, Tensors]:
    """Tensors of the main file and of the codec's, from pieces by option name."""
    groups: tuple[Tensors, Tensors] = {}, {}
    for name, path in files.items():
        prefix, tensors = PREFIXES[name], load_file(path)
        bare = not all(key.startswith(prefix) for key in tensors)
        groups[name not in MAIN_PIECES].update({prefix + key if bare else key: t for key, t in tensors.items()})
    return groups


@torch.no_grad()
def random_pieces(kind: Kind, text: Path, seed: int) -> tuple[Tensors, Tensors]:
    """Made-up weights that speak noise. Head rows of codes that no codebook has are zero: other rows win a draw."""
    torch.manual_seed(seed)
    _, talker = sizes.talker_modules(kind, text)
    codec = Codec(sizes.codec_modules()[0])
    for name, weight in talker.named_parameters():
        if "embedding" in name:
            weight.normal_()
    talker.codec_head.weight.normal_()[sizes.CODEBOOK_SIZE : 2048] = 0
    books = torch.randn(sizes.NUM_CODEBOOKS, sizes.CODEBOOK_SIZE, sizes.ROW_WIDTH)
    for quantizer in (codec.decoder.quantizer, codec.encoder.quantizer):
        sizes.fill_codebooks(quantizer, books)
    main = {f"talker.{name}": tensor for name, tensor in talker.state_dict().items()}
    if kind is Kind.BASE:
        main |= {f"speaker_encoder.{name}": t for name, t in sizes.speaker_encoder().state_dict().items()}
    return main, codec.state_dict()


def export(parts: Parts, out: Path) -> int:
    """Write the checkpoint `parts` make to the new folder `out` and return its bytes on disk. Raises InvalidInput."""
    if out.exists():
        raise InvalidInput(Problem(str(out), "a folder that does not exist", "something is there", "remove it first"))
    main, codec = _halved(parts.main), _halved(parts.codec)
    problems = [*_text_problems(parts), *_weight_problems(parts, main, codec), *_codebook_problems(parts.codec)]
    if problems:
        raise InvalidInput(problems)
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        _write_weights(main, partial)
        _write_weights(codec, partial / CODEC_FOLDER)
        _write_texts(parts, partial)
        Checkpoint.load(partial, torch.device("cpu"), torch.float32)
        _write_card(parts, out.name, partial)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder_bytes(out)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _halved(tensors: Tensors) -> Tensors:
    """Contiguous float16 copies; memory that two names share cannot be saved."""
    return {name: t.detach().to("cpu", torch.float16).contiguous().clone() for name, t in tensors.items()}


def _text_problems(parts: Parts) -> Iterator[Problem]:
    for name in TOKENIZER_FILES:
        if not (parts.text / name).is_file():
            yield Problem(str(parts.text / name), "a file of the tokenizer", "no file")


def _weight_problems(parts: Parts, main: Tensors, codec: Tensors) -> Iterator[Problem]:
    """Tensors that do not fit the kind's modules, and values that half precision cannot hold."""
    data = sizes.main_json(parts.kind, parts.text)
    speaker = SpeakerEncoderConfig.from_json(data) if parts.kind is Kind.BASE else None
    with torch.device("meta"):
        modules = Qwen3TTS(Qwen3TTSConfig.from_dict(data), speaker), Codec(CodecConfig.from_json(sizes.CODEC))
    for where, module, tensors in (("main pieces", modules[0], main), ("codec pieces", modules[1], codec)):
        yield from fit_problems(module.state_dict(), tensors, where)
        for name, tensor in tensors.items():
            if not tensor.isfinite().all():
                yield Problem(f"{where}: {name}", "finite numbers below 65,504", "an infinite value or no number")


def _codebook_problems(codec: Tensors) -> Iterator[Problem]:
    """Books that nobody filled, and books of the two directions that differ: a reference would get foreign codes."""
    for book in range(sizes.NUM_CODEBOOKS):
        group, layer = ("first", book) if book == 0 else ("rest", book - 1)
        branch = ("semantic" if book == 0 else "acoustic") + "_residual_vector_quantizer"
        names = (
            f"decoder.quantizer.rvq_{group}.vq.layers.{layer}._codebook.embedding_sum",
            f"encoder.quantizer.{branch}.layers.{layer}.codebook.embed_sum",
        )
        if not all(name in codec for name in names):
            continue  # a missing tensor has its own problem
        decoded, encoded = (codec[name].cpu() for name in names)
        if not decoded.any():
            yield Problem(names[0], "fitted rows", "zeros")
        elif not torch.equal(decoded, encoded):
            yield Problem(names[1], f"the rows of {names[0]}", "other rows")


def _write_weights(tensors: Tensors, folder: Path) -> None:
    folder.mkdir(parents=True)
    save_file(tensors, folder / SINGLE_FILE, metadata={"format": "pt"})
    (folder / SINGLE_FILE).chmod(0o644)  # the library makes files that only their owner reads


def _write_texts(parts: Parts, folder: Path) -> None:
    for name in TOKENIZER_FILES:
        shutil.copyfile(parts.text / name, folder / name)
    _write_json(folder / "config.json", sizes.main_json(parts.kind, parts.text))
    _write_json(folder / "generation_config.json", parts.sampling.as_json())
    _write_json(folder / "preprocessor_config.json", sizes.PREPROCESSOR)
    _write_json(folder / CODEC_FOLDER / "config.json", sizes.CODEC)
    _write_json(folder / CODEC_FOLDER / "preprocessor_config.json", sizes.CODEC_PREPROCESSOR)
    _write_json(folder / "training.json", parts.record)


def _write_card(parts: Parts, name: str, folder: Path) -> None:
    tasks = {
        Kind.TINY: "Named voices (`custom_voice`).",
        Kind.BASE: "Voice cloning (`base`): by speaker vector, or in context with the reference's transcript.",
    }
    layouts = {
        Kind.TINY: "streaming, one text token a codec frame, and non-streaming. The first is the default here "
        "(`non_streaming_mode: false`); the official wrapper takes it as an argument and else uses the second",
        Kind.BASE: "streaming, one text token a codec frame, as the official wrapper's default, and non-streaming",
    }
    voices = ", ".join(f"`{speaker}`" for speaker in sizes.SPEAKERS)
    config = read_json(folder / "config.json")["talker_config"]
    text = string.Template(CARD.read_text(encoding="utf-8")).substitute(
        name=name,
        task=tasks[parts.kind],
        layouts=layouts[parts.kind],
        protocol=PROTOCOL[parts.kind].strip(),
        voices=voices if parts.kind is Kind.TINY else CLIPS,
        megabytes=f"{folder_bytes(folder) / 1e6:.1f}",
        talker_layers=config["num_hidden_layers"],
        talker_width=config["hidden_size"],
        predictor_layers=config["code_predictor_config"]["num_hidden_layers"],
        predictor_width=config["code_predictor_config"]["hidden_size"],
        codebook_size=sizes.CODEBOOK_SIZE,
        window=sizes.CODEC["decoder_config"]["sliding_window"],
        **parts.sampling.as_json(),
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts.train_tiny.export", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="the folder to make")
    parser.add_argument("--kind", type=Kind, choices=list(Kind), required=True)
    parser.add_argument("--text", type=Path, required=True, help="folder with the tokenizer files")
    for name, prefix in PREFIXES.items():
        parser.add_argument(f"--{name}", type=Path, help=f"safetensors of {prefix}*")
    parser.add_argument("--random", type=int, metavar="SEED", help="make up the weights instead of reading pieces")
    parser.add_argument("--record", type=Path, nargs="+", default=[], help="of each sitting; shipped in training.json")
    for default in fields(Sampling):
        kind = type(default.default)
        parser.add_argument(f"--{default.name.replace('_', '-')}", type=kind, default=default.default)
    return parser.parse_args()


def main() -> None:
    """Read what the command line names, export it and print the bytes."""
    arguments = _arguments()
    kind: Kind = arguments.kind
    wanted = [name for name in PREFIXES if name != "speaker" or kind is Kind.BASE]
    files = {name: path for name in PREFIXES if (path := getattr(arguments, name)) is not None}
    record: dict[str, Any] = {"sittings": [read_json(path) for path in arguments.record]}
    if arguments.random is not None and not files:
        tensors = random_pieces(kind, arguments.text, arguments.random)
        record["random_seed"] = arguments.random
    elif arguments.random is None and sorted(files) == sorted(wanted):
        tensors = read_pieces(files)
        record["pieces_sha256"] = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    else:
        sys.exit(f"{kind} is made of --{' --'.join(wanted)}, or of --random alone")
    sampling = Sampling(**{default.name: getattr(arguments, default.name) for default in fields(Sampling)})
    try:
        print(export(Parts(kind, arguments.text, *tensors, sampling, record), arguments.out), "bytes")
    except InvalidInput as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
