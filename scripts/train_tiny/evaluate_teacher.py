"""Speaks with the teacher, on the CPU, what `evaluate` holds the students against.

    python -m scripts.train_tiny.evaluate_teacher WORK OUT

`OUT/named/<voice>/<row id>.wav`: every row of mini-en by every named voice, as it comes out of the teacher.
`OUT/cloning/en/`: a Seed-TTS list of the same rows whose reference clips are of voices that `tiny-base` heard in
training and of as many that it never heard, by turns.

WORK is the folder that `scripts/make_mini_en/clips.py` describes. About 0.7 s of one core for a second of speech; a run
that is started again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from scripts.train_tiny.config import SAMPLE_RATE_HZ
from scripts.train_tiny.voices import NAMED, UNSEEN
from ttsbench.corpus import load_corpus

MINI_EN = "mini-en"
SEEN = ("af_heart", "af_bella", "am_michael", "am_fenrir", "af_alloy", "am_puck", "bf_alice", "bm_daniel")


def speak_named(kokoro: Any, out: Path) -> None:
    """Every row of mini-en by every named voice."""
    import soundfile

    for row in load_corpus(MINI_EN).rows:
        for speaker, voice in NAMED.items():
            path = out / "named" / speaker / f"{row.utterance_id}.wav"
            if path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            soundfile.write(part, kokoro.speak(row.text, voice), SAMPLE_RATE_HZ, subtype="PCM_16", format="WAV")
            part.replace(path)


def make_cloning_list(kokoro: Any, clips: Any, out: Path) -> None:
    """The list and its clips. Voices that mini-en brings keep its clips; the others read those clips' words."""
    import soundfile

    folder = out / "cloning" / "en"
    (folder / "prompt-wavs").mkdir(parents=True, exist_ok=True)
    corpus = load_corpus(MINI_EN)
    said = dict(clips.read_clips())
    texts = list(said.values())
    voices = [voice for pair in zip(SEEN, UNSEEN, strict=True) for voice in pair]
    for number, voice in enumerate(voices):
        path = folder / "prompt-wavs" / f"{voice}.wav"
        if voice in said:
            shutil.copyfile(corpus.path.parent / "prompt-wavs" / path.name, path)
        else:
            said[voice] = texts[number % len(texts)]
            if not path.exists():
                clip = clips.finish(kokoro.speak(said[voice], voice))
                soundfile.write(path, clip, SAMPLE_RATE_HZ, subtype="PCM_16")
    lines = []
    for number, row in enumerate(corpus.rows):
        voice = voices[number % len(voices)]
        lines.append(f"{voice}-{number + 1:03d}|{said[voice]}|prompt-wavs/{voice}.wav|{row.text}\n")
    (folder / "meta.lst").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    # the files of that folder are scripts: they find each other by its path
    sys.path.append(str(Path(__file__).parents[1] / "make_mini_en"))
    import clips  # type: ignore[import-not-found]

    kokoro = clips.Kokoro(options.work)
    make_cloning_list(kokoro, clips, options.out)
    speak_named(kokoro, options.out)


if __name__ == "__main__":
    main()
