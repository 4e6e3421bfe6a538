"""Does the official package load checkpoint folders without a loss, and speak with them?

    python scripts/oracle/check_checkpoint.py FOLDER...

`from_pretrained` fills what a file lacks with random numbers and drops what it does not know, and says so in a log line
at most. Here every name, shape and value of the files is held against the loaded model; then each folder speaks a few
frames: CustomVoice with every named voice in both text layouts, Base with a reference, with and without its transcript,
in the streaming layout alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

TEXT = "The small boat drifted slowly down the river."
FRAMES = 12
HOP = 1920


def faults(folder: Path, wrapper: Any) -> Iterator[str]:
    """What the loaded model and the files do not have in common, or hold different values for."""
    codec = wrapper.model.speech_tokenizer.model.state_dict()
    main = {n: t for n, t in wrapper.model.state_dict().items() if not n.startswith("speech_tokenizer")}
    for state, file in ((main, "model.safetensors"), (codec, "speech_tokenizer/model.safetensors")):
        stored = load_file(folder / file)
        yield from (f"{file}: missing {name}" for name in sorted(state.keys() - stored.keys()))
        yield from (f"{file}: unexpected {name}" for name in sorted(stored.keys() - state.keys()))
        for name in sorted(state.keys() & stored.keys()):
            if not torch.equal(state[name].float(), stored[name].float()):
                yield f"{file}: {name} differs"


def spoken(wrapper: Any) -> Iterator[tuple[str, Any]]:
    """(way of speaking, waveform) for each way that the checkpoint's kind is tried in."""
    arguments = {"text": TEXT, "language": "english", "max_new_tokens": FRAMES + 1}
    if wrapper.model.tts_model_type == "custom_voice":
        for voice, layout in product(wrapper.get_supported_speakers(), ("streaming", "non_streaming")):
            mode = {"speaker": voice, "non_streaming_mode": layout == "non_streaming"}
            yield f"{voice}, {layout}", wrapper.generate_custom_voice(**mode, **arguments)[0][0]
        return
    arguments["non_streaming_mode"] = False
    noise = (0.1 * np.random.default_rng(0).standard_normal(48_000)).astype(np.float32)
    for transcript in (None, "Some other words."):
        way = f"{'x-vector' if transcript is None else 'in context'}, streaming"
        reference = {"ref_audio": (noise, 24_000), "ref_text": transcript, "x_vector_only_mode": transcript is None}
        yield way, wrapper.generate_voice_clone(**reference, **arguments)[0][0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    options = parser.parse_args()
    import official  # here, so that --help answers where the oracle's packages are not installed

    found = []
    for folder in options.folders:
        wrapper = official.load(folder)
        found += [f"{folder.name}: {fault}" for fault in faults(folder, wrapper)]
        for way, wav in spoken(wrapper):
            frames = len(wav) / HOP
            print(f"{folder.name}: {way}: {frames:g} frames, peak {np.abs(wav).max():.3f}")
            if not (np.isfinite(wav).all() and 0 < frames <= FRAMES and frames.is_integer()):
                found.append(f"{folder.name}: {way}: no finite whole frames within the limit")
    sys.exit("\n".join(found) or None)


if __name__ == "__main__":
    main()
