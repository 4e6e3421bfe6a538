"""How well the embedded speaker encoder tells voices apart: same-voice and cross-voice means, and the equal-error rate.

    python -m scripts.measure_speaker_encoder [RUNS ...]

Each RUNS is a folder that holds run folders, at any depth. The first table compares all pairs of rows, one table line a
folder: of one voice and of two. The second compares rows with reference clips: with the clip that they were cloned
from and with the run's others; of runs in named voices, with the eight clips of mini-en, where the teacher's voice of
that name (`af_heart` for `heart`) is the own one. Rows of up to one second, rows without audio and rows in the same
words and voice (another seed's) are left out, the last since they are alike for more than the voice. The clips of
mini-en stand for their voices' other speech in the last table line: each is cut in two halves.

The equal-error rate is the share of same-voice pairs below and of cross-voice pairs above the threshold at which both
shares are equal.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ttsbench.assets import asset_folder
from ttsbench.records import NamedVoiceRecord, ReferenceVoiceRecord, sha256_of
from ttsbench.score.audio import ASR_RATE_HZ, decode_wav, for_asr
from ttsbench.score.source import RunSource
from ttsbench.score.speaker.clips import ClipFault, read_row
from ttsbench.score.speaker.ge2e import Ge2eEncoder
from ttsbench.score.speaker.judge import SHORT_S
from ttsbench.score.speaker.speech import spoken

CLIPS = asset_folder("mini_en") / "en" / "prompt-wavs"


@dataclass(frozen=True)
class Row:
    """One clip of speech."""

    voice: str
    words: str
    vector: np.ndarray


@dataclass(frozen=True)
class Pairs:
    """Cosines of pairs of one voice and of pairs of two."""

    same: np.ndarray
    cross: np.ndarray

    def line(self, title: str) -> str:
        rate, threshold = equal_error(self.same, self.cross)
        spread = f"{np.percentile(self.same, 5):.3f} | {np.percentile(self.cross, 95):.3f}"
        echo = f"{100 * (self.same > 0.95).mean():.2f}"
        counts = f"{len(self.same)} | {len(self.cross)}"
        means = f"{self.same.mean():.3f} | {self.cross.mean():.3f}"
        return f"| {title} | {counts} | {means} | {spread} | {100 * rate:.1f} | {threshold:.2f} | {echo} |"


HEADER = """| | same pairs | cross pairs | same mean | cross mean | same p5 | cross p95 | EER % | at | same > 0.95, % |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def equal_error(same: np.ndarray, cross: np.ndarray) -> tuple[float, float]:
    """The rate, between the two shares where they cross, and the threshold."""
    thresholds = np.unique(np.concatenate([same, cross]))
    missed = np.searchsorted(np.sort(same), thresholds, "left") / len(same)
    passed = 1 - np.searchsorted(np.sort(cross), thresholds, "left") / len(cross)
    best = int(np.abs(missed - passed).argmin())
    return float(missed[best] + passed[best]) / 2, float(thresholds[best])


def among(rows: Sequence[Row]) -> Pairs:
    """All pairs of rows, but for those of one voice that say the same."""
    vectors = np.stack([row.vector for row in rows])
    one, other = np.triu_indices(len(rows), 1)
    cosines = (vectors @ vectors.T)[one, other]
    same_voice = _equal([row.voice for row in rows], one, other)
    same_words = _equal([row.words for row in rows], one, other)
    return Pairs(cosines[same_voice & ~same_words], cosines[~same_voice])


def against(rows: Sequence[Row], clips: Sequence[Row]) -> Pairs:
    """Rows with clips."""
    cosines = np.stack([row.vector for row in rows]) @ np.stack([clip.vector for clip in clips]).T
    own = np.array([[row.voice == clip.voice for clip in clips] for row in rows])
    return Pairs(cosines[own], cosines[~own])


def _equal(names: Sequence[str], one: np.ndarray, other: np.ndarray) -> np.ndarray:
    numbers = np.unique(names, return_inverse=True)[1]
    return np.asarray(numbers[one] == numbers[other])


def read_runs(folder: Path, encoder: Ge2eEncoder) -> tuple[list[Row], dict[str, Path]]:
    """Every row long enough in every run below, and the reference clips by hash."""
    rows, references = [], {}
    for manifest in sorted(folder.rglob("run.json")):
        source = RunSource.open(manifest.parent)
        for _, record in source.rows():
            if record is None:
                continue
            try:
                clip = read_row(manifest.parent, record)
            except ClipFault as fault:
                print(f"left out: {manifest.parent} {record.utterance_id}: {fault}")
                continue
            if clip.speech_s < SHORT_S:
                continue
            voice = record.voice
            if isinstance(voice, ReferenceVoiceRecord) and voice.audio_sha256 is not None:
                references[voice.audio_sha256] = Path(voice.audio)
                rows.append(Row(voice.audio_sha256, record.text_sha256, encoder.embed(clip.samples)))
            elif isinstance(voice, NamedVoiceRecord):
                rows.append(Row(voice.speaker, record.text_sha256, encoder.embed(clip.samples)))
    return rows, references


def bundled_clips() -> Iterator[tuple[str, np.ndarray]]:
    """Voice and samples of the clips of mini-en."""
    for path in sorted(CLIPS.glob("*.wav")):
        yield path.stem, for_asr(decode_wav(path.read_bytes()))


def halves(encoder: Ge2eEncoder) -> list[Row]:
    """The two halves of each bundled clip's speech, as rows of different words."""
    rows = []
    for voice, samples in bundled_clips():
        speech = spoken(samples)
        for number, half in enumerate((speech[: len(speech) // 2], speech[len(speech) // 2 :])):
            rows.append(Row(voice, f"half {number}", encoder.embed(half)))
    return rows


def clips_for(rows: Sequence[Row], references: dict[str, Path], encoder: Ge2eEncoder) -> list[Row]:
    """The clips that these rows are compared with, under the names of the rows' voices."""
    if references:
        for digest, path in references.items():
            if sha256_of(path.read_bytes()) != digest:
                raise ValueError(f"{path} is not the clip that the run used")
        sounds = {digest: for_asr(decode_wav(path.read_bytes())) for digest, path in references.items()}
    else:
        voices = {row.voice for row in rows}
        sounds = {_short(name, voices): samples for name, samples in bundled_clips()}
    return [Row(voice, "", encoder.embed(samples)) for voice, samples in sounds.items()]


def _short(clip: str, voices: set[str]) -> str:
    """`heart` for the clip `af_heart` if that is among the voices."""
    return clip.split("_")[-1] if clip.split("_")[-1] in voices else clip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    encoder = Ge2eEncoder.load()
    between_rows, with_clips = [], []
    for folder in asked.runs:
        rows, references = read_runs(folder, encoder)
        if not rows:
            raise SystemExit(f"{folder}: no run with rows of {SHORT_S:g} s or more")
        title = f"{folder.name}, {len(rows)} rows, {len({row.voice for row in rows})} voices"
        between_rows.append(among(rows).line(title))
        with_clips.append(against(rows, clips_for(rows, references, encoder)).line(title))
    cut = halves(encoder)
    between_rows.append(among(cut).line(f"halves of the clips of mini-en, {len(cut) // 2} voices"))
    seconds = sum(len(samples) for _, samples in bundled_clips()) / ASR_RATE_HZ
    print(f"{encoder.name}; clips of mini-en: {seconds:.0f} s\n\nRow against row\n\n{HEADER}", *between_rows, sep="\n")
    if with_clips:
        print(f"\nRow against reference clip\n\n{HEADER}", *with_clips, sep="\n")


if __name__ == "__main__":
    main()
