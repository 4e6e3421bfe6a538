"""What is listened to: every row that a checkpoint, or the teacher, spoke, and what the recogniser heard in it.

A checkpoint speaks as under `ttsbench synth`: the real engine, its shipped defaults, a run folder with all records,
scored as under `ttsbench score`. A run folder that exists is gone on with, and is refused if anything has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pydantic import JsonValue

from ttsbench.adapters.native import NativeEngine
from ttsbench.core import InvalidInput, TextLayout
from ttsbench.corpus import Corpus
from ttsbench.experiment.resume import differences
from ttsbench.experiment.rows import RowPlan, RunVoice
from ttsbench.experiment.synthesis import Synthesis
from ttsbench.records import (
    RowStatus,
    RunFolder,
    read_manifest,
    read_requests,
    read_scores,
    read_wer,
    sha256_of,
    write_atomic,
)
from ttsbench.score.asr import AsrSpec, Clip, Transcriber
from ttsbench.score.audio import audible_windows, decode_wav, for_asr
from ttsbench.score.protocol import MINI_EN_1, ScoringProtocol
from ttsbench.score.run import score_under

TEACHER = "teacher"


@dataclass(frozen=True)
class Take:
    """One row as spoken once."""

    manner: str
    """How it was spoken: a text layout, a kind of cloning, or TEACHER."""
    seed: int
    voice: str
    row: str
    status: RowStatus
    wav: Path | None
    reference: str
    """The text under the protocol's text rule."""
    hypothesis: str | None
    """What was heard, under the same rule; None where there was nothing to hear."""
    silent: bool


class OpenedOnce:
    """A recogniser that stays loaded from one run folder to the next."""

    def __init__(self, spec: AsrSpec) -> None:
        self._spec = spec

    @property
    def cacheable(self) -> bool:
        return self._spec.cacheable

    def found(self) -> dict[str, JsonValue]:
        return self._spec.found()

    def pinned(self) -> dict[str, JsonValue]:
        return self._spec.pinned()

    def versions(self) -> dict[str, str]:
        return self._spec.versions()

    def open(self) -> Transcriber:
        return self._transcriber

    @cached_property
    def _transcriber(self) -> Transcriber:
        return self._spec.open()


PROTOCOL: ScoringProtocol = replace(MINI_EN_1, asr=OpenedOnce(MINI_EN_1.asr))


def speak(
    engine: NativeEngine, corpus: Corpus, voice: RunVoice, seed: int, folder: Path, layout: TextLayout | None = None
) -> None:
    """One run folder, spoken and scored, at the engine's defaults but for `layout`. Raises InvalidInput."""
    info = engine.info()
    plan = RowPlan(
        voice=voice,
        language="auto",
        sampling=info.default_sampling,
        text_layout=layout or info.default_text_layout,
        seed=seed,
        max_frames=info.default_max_frames,
    )
    before = read_manifest(folder) if RunFolder(folder).manifest.exists() else None
    synthesis = Synthesis(engine, corpus, plan, RunFolder(folder), info.max_num_seqs, True, before)
    if before is not None and (changed := differences(before, synthesis.manifest)):
        raise InvalidInput(changed)
    if not synthesis.finished:
        synthesis.run(lambda progress: None)
    if not _is_scored(folder):
        score_under(folder, PROTOCOL)


def takes_of(folder: Path, manner: str, voices: Mapping[str, str]) -> list[Take]:
    """The rows of a scored run folder; `voices` names the voice of each row id."""
    heard = {row.row_index: row for row in read_wer(folder, PROTOCOL.id).records}
    seed = read_manifest(folder).settings.seed
    takes = []
    for index, record in read_requests(folder).rows.items():
        row = heard[index]
        takes.append(
            Take(
                manner=manner,
                seed=seed,
                voice=voices[record.utterance_id],
                row=record.utterance_id,
                status=record.status,
                wav=None if record.wav_path is None else folder / record.wav_path,
                reference=PROTOCOL.normalise(record.text),
                hypothesis=row.hypothesis,
                silent=record.status is RowStatus.EMPTY or row.cause == "silent",
            )
        )
    return takes


def teacher_takes(folder: Path, corpus: Corpus, voices: Sequence[str], cache: Path) -> list[Take]:
    """The teacher's rows by these voices, under the same protocol. `folder` is what `evaluate_teacher` wrote; `cache`
    keeps what was heard. Raises FileNotFoundError for a row that the teacher has not spoken.
    """
    stored: dict[str, str | None] = json.loads(cache.read_text(encoding="utf-8")) if cache.exists() else {}
    wavs = {(v, row): folder / "named" / v / f"{row.utterance_id}.wav" for v in voices for row in corpus.rows}
    keys = {(v, row): f"{v}/{row.utterance_id}" for v, row in wavs}
    missing = [place for place in wavs if keys[place] not in stored]
    with ThreadPoolExecutor(PROTOCOL.asr.open().workers) as pool:
        heard = pool.map(_transcript, [wavs[place] for place in missing])
        stored |= {keys[place]: transcript for place, transcript in zip(missing, heard, strict=True)}
    write_atomic(cache, json.dumps(stored, indent=1).encode())
    takes = []
    for (voice, row), wav in wavs.items():
        transcript = stored[keys[voice, row]]
        takes.append(
            Take(
                manner=TEACHER,
                seed=0,
                voice=voice,
                row=row.utterance_id,
                status=RowStatus.OK,
                wav=wav,
                reference=PROTOCOL.normalise(row.text),
                hypothesis=None if transcript is None else PROTOCOL.normalise(transcript),
                silent=transcript is None,
            )
        )
    return takes


def _transcript(wav: Path) -> str | None:
    data = wav.read_bytes()
    samples = for_asr(decode_wav(data))
    return PROTOCOL.asr.open().transcribe(Clip(samples, sha256_of(data))) if audible_windows(samples) else None


def _is_scored(folder: Path) -> bool:
    if not RunFolder(folder).scores.exists():
        return False
    summary = read_scores(folder).wer.get(PROTOCOL.id)
    return summary is not None and summary.requests_sha256 == read_requests(folder).sha256
