"""Greedy codes of the official package for the embedded checkpoints: every voice, language and text layout, all frames.

    python scripts/oracle/tiny_greedy.py FOLDER

Writes tests/golden/<name of the folder>_greedy.json: of `tiny` its named voices, of `tiny-base` voices cloned from the
clips of mini-en, by speaker vector and in context. The repetition penalty and the cap are those of the folder's
generation_config.json. Sentences are computed one at a time, in float32 on the weights as stored.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import official
import soundfile as sf
import torch
from make_toys import GOLDEN

MINI_EN = Path(__file__).parents[2] / "ttsbench" / "assets" / "mini_en" / "en"

SENTENCES = (
    ("The small boat drifted slowly down the river.", "heart", "english"),
    ("She opened the window and listened to the rain.", "bella", "english"),
    ("Please leave your coat by the door.", "michael", "english"),
    ("Nobody expected the train to arrive on time.", "fenrir", "english"),
    ("He counted seven birds on the old stone wall.", "heart", "auto"),
    ("Is the kitchen light still on?", "bella", "auto"),
    ("They walked through the quiet town and talked about the long summer.", "michael", "auto"),
    ("We will meet again next week.", "fenrir", "auto"),
)
"""(text, voice, language), each spoken in both text layouts."""
CLONES = 8
"""Rows of mini-en, each with another clip; by turns a row is cloned by speaker vector and in context."""

Sentence = dict[str, Any]
"""`text`, `language`, and `voice` or `clip` (a file of mini-en) with `ref_text` (None: by speaker vector)."""


def named() -> list[Sentence]:
    return [{"text": text, "voice": voice, "language": language} for text, voice, language in SENTENCES]


def cloned() -> list[Sentence]:
    found = []
    for number, line in enumerate((MINI_EN / "meta.lst").read_text(encoding="utf-8").splitlines()[:CLONES]):
        _, ref_text, clip, text = line.split("|")
        language = ("english", "auto")[number // 2 % 2]
        found.append({"text": text, "clip": clip, "ref_text": ref_text if number % 2 else None, "language": language})
    return found


def utterance(wrapper: Any, sentence: Sentence, non_streaming: bool) -> dict[str, Any]:
    """The record of one sentence; `finished` says whether the model ended it or the cap did."""
    arguments = {"text": sentence["text"], "language": sentence["language"], "non_streaming_mode": non_streaming}
    if "voice" in sentence:
        method, arguments["speaker"] = "generate_custom_voice", sentence["voice"]
    else:
        method, ref_text = "generate_voice_clone", sentence["ref_text"]
        reference = sf.read(MINI_EN / sentence["clip"], dtype="float32")
        arguments |= {"ref_audio": reference, "ref_text": ref_text, "x_vector_only_mode": ref_text is None}
    call = official.watch(wrapper, method, **arguments, **official.GREEDY)
    return {
        **sentence,
        "non_streaming_mode": non_streaming,
        "finished": int(call.result.sequences[0, -1]) == wrapper.model.config.talker_config.codec_eos_token_id,
        "assistant_ids": wrapper._tokenize_texts([wrapper._build_assistant_text(sentence["text"])])[0][0].tolist(),
        "smallest_gap": _smallest_gap(call),
        "codes": call.codes[0].tolist(),
    }


def _smallest_gap(call: official.Call) -> float:
    """Least distance of the two best group-0 logits: how near a rounding difference comes to another utterance."""
    best = torch.cat(call.result.logits).topk(2).values
    return float((best[:, 0] - best[:, 1]).min())


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    wrapper = official.load(folder)
    rows = []
    for non_streaming in (False, True):
        for sentence in named() if wrapper.model.tts_model_type == "custom_voice" else cloned():
            row = utterance(wrapper, sentence, non_streaming)
            print(f"{len(row['codes'])} frames, finished {row['finished']}, gap {row['smallest_gap']:.4f}: {sentence}")
            rows.append(json.dumps(row))
    files = ("model.safetensors", "speech_tokenizer/model.safetensors", "config.json", "generation_config.json")
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files}
    head = json.dumps({"checkpoint_sha256": hashes}, indent=1).removesuffix("\n}")
    text = f'{head},\n "utterances": [\n' + ",\n".join(rows) + "\n]}\n"
    (GOLDEN / f"{folder.name}_greedy.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
