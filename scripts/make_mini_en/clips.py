"""Speaks `clip_texts.txt` with Kokoro-82M on the CPU and writes the reference clips of mini-en.

    python scripts/make_mini_en/clips.py WORK

WORK is a folder into which these were unpacked (all Apache-2.0, the ONNX export MIT), see README.md:

    model-1.bin ... model-4.bin   the four parts of `kokoro-v1.0.int8.onnx`
    vocab.json                    symbol to id
    voices/                       one float32 table [510, 256] per voice

Needs onnxruntime, soundfile and the program espeak-ng. Nothing in the graph is random.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
import onnxruntime
import soundfile
from make_list import LIST, read_clips
from phonemes import kokoro_symbols

RATE_HZ = 24_000
STYLE_WIDTH = 256
PEAK = 10 ** (-3 / 20)
"""-3 dBFS: loud enough for every reader, and no sample near full scale."""
MARGIN_S = 0.1
"""Silence that is kept before the first and after the last audible sample."""
AUDIBLE = 0.01
"""Of the clip's peak."""
MODEL_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"


class Kokoro:
    """The teacher, on one thread."""

    def __init__(self, work: Path) -> None:
        model = b"".join((work / f"model-{part}.bin").read_bytes() for part in range(1, 5))
        if hashlib.sha256(model).hexdigest() != MODEL_SHA256:
            raise SystemExit(f"the four parts in {work} do not join to the expected model")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._ids: dict[str, int] = json.loads((work / "vocab.json").read_text(encoding="utf-8"))["vocab"]
        self._voices = work / "voices"

    def speak(self, text: str, voice: str) -> np.ndarray:
        """Mono float32 [S] at 24 kHz."""
        symbols = kokoro_symbols(text, british=voice.startswith("b"))
        ids = [self._ids[symbol] for symbol in symbols]
        styles = np.fromfile(self._voices / f"{voice}.bin", np.float32).reshape(-1, STYLE_WIDTH)
        inputs = {
            "tokens": np.array([[0, *ids, 0]], np.int64),
            "style": styles[[len(ids) - 1]],
            "speed": np.ones(1, np.float32),
        }
        return np.asarray(self._session.run(None, inputs)[0], np.float32).ravel()


def finish(samples: np.ndarray) -> np.ndarray:
    """Trimmed to the audible part with its margins, peak at -3 dBFS."""
    level = np.abs(samples) / np.abs(samples).max()
    audible = np.flatnonzero(level > AUDIBLE)
    margin = round(MARGIN_S * RATE_HZ)
    samples = samples[max(0, audible[0] - margin) : audible[-1] + margin]
    return np.asarray(samples * (PEAK / np.abs(samples).max()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    kokoro = Kokoro(parser.parse_args().work)
    folder = LIST.parent / "prompt-wavs"
    folder.mkdir(parents=True, exist_ok=True)
    for voice, text in read_clips():
        clip = finish(kokoro.speak(text, voice))
        path = folder / f"{voice}.wav"
        soundfile.write(path, clip, RATE_HZ, subtype="PCM_16")
        print(f"{voice}  {len(clip) / RATE_HZ:.2f} s  {hashlib.sha256(path.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
