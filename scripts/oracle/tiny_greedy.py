"""Greedy codes of the official package for the tiny checkpoint: every voice, language and text layout, every frame.

    python scripts/oracle/tiny_greedy.py FOLDER

Writes tests/golden/tiny_greedy.json. The repetition penalty and the cap are those of the folder's
generation_config.json. Sentences are computed one at a time, in float32 on the weights as stored.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import official
import torch
from make_toys import GOLDEN

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


def utterance(wrapper: Any, text: str, voice: str, language: str, non_streaming: bool) -> dict[str, Any]:
    """The record of one sentence; `finished` says whether the model ended it or the cap did."""
    call = official.watch(
        wrapper,
        "generate_custom_voice",
        text=text,
        speaker=voice,
        language=language,
        non_streaming_mode=non_streaming,
        **official.GREEDY,
    )
    return {
        "text": text,
        "voice": voice,
        "language": language,
        "non_streaming_mode": non_streaming,
        "finished": int(call.result.sequences[0, -1]) == wrapper.model.config.talker_config.codec_eos_token_id,
        "assistant_ids": wrapper._tokenize_texts([wrapper._build_assistant_text(text)])[0][0].tolist(),
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
        for sentence in SENTENCES:
            row = utterance(wrapper, *sentence, non_streaming)
            print(f"{len(row['codes'])} frames, finished {row['finished']}, gap {row['smallest_gap']:.4f}: {sentence}")
            rows.append(json.dumps(row))
    files = ("model.safetensors", "config.json", "generation_config.json")
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files}
    head = json.dumps({"checkpoint_sha256": hashes}, indent=1).removesuffix("\n}")
    text = f'{head},\n "utterances": [\n' + ",\n".join(rows) + "\n]}\n"
    (GOLDEN / "tiny_greedy.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
