"""Greedy codes of the official package for the tiny checkpoint: eight sentences, streaming text layout, every frame.

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
    ("She opened the window and listened to the rain.", "michael", "english"),
    ("Please leave your coat by the door.", "heart", "auto"),
    ("Nobody expected the train to arrive on time.", "michael", "auto"),
    ("He counted seven birds on the old stone wall.", "heart", "english"),
    ("Is the kitchen light still on?", "michael", "english"),
    ("They walked through the quiet town and talked about the long summer.", "heart", "auto"),
    ("We will meet again next week.", "michael", "auto"),
)


def utterances(folder: Path) -> list[dict[str, Any]]:
    """One record per sentence; `finished` says whether the model ended it or the cap did."""
    wrapper = official.load(folder)
    records: list[dict[str, Any]] = []
    for text, voice, language in SENTENCES:
        call = official.watch(
            wrapper,
            "generate_custom_voice",
            text=text,
            speaker=voice,
            language=language,
            non_streaming_mode=False,
            **official.GREEDY,
        )
        last = int(call.result.sequences[0, -1])
        finished = last == wrapper.model.config.talker_config.codec_eos_token_id
        codes = call.codes[0].tolist()
        records.append(
            {
                "text": text,
                "voice": voice,
                "language": language,
                "finished": finished,
                "assistant_ids": wrapper._tokenize_texts([wrapper._build_assistant_text(text)])[0][0].tolist(),
                "smallest_gap": _smallest_gap(call),
                "codes": codes,
            }
        )
        print(f"{len(codes)} frames, finished {finished}, gap {records[-1]['smallest_gap']:.4f}: {text}")
    return records


def _smallest_gap(call: official.Call) -> float:
    """Least distance of the two best group-0 logits: how near a rounding difference comes to another utterance."""
    best = torch.cat(call.result.logits).topk(2).values
    return float((best[:, 0] - best[:, 1]).min())


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    files = ("model.safetensors", "config.json", "generation_config.json")
    record: dict[str, Any] = {
        "checkpoint_sha256": {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files},
        "non_streaming_mode": False,
        "utterances": utterances(folder),
    }
    rows = ",\n".join(json.dumps(row) for row in record.pop("utterances"))
    head = json.dumps(record, indent=1).removesuffix("\n}")
    (GOLDEN / "tiny_greedy.json").write_text(f'{head},\n "utterances": [\n{rows}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
