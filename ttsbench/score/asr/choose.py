"""Another recogniser under a protocol's rules, named on the command line as KIND:WHERE.

    recorded:FILE            transcripts that somebody recorded, as `transcripts.py` keeps them
    endpoint:URL#MODEL       an OpenAI-style transcription server; URL is the whole address
    whisper:CHECKPOINT       the package openai-whisper: a name such as large-v3, or a .pt file
    faster-whisper:FOLDER    a CTranslate2 folder, or a hub id
    transformers:FOLDER      a Whisper checkpoint of Transformers, or a hub id

Figures of another recogniser are those of another protocol, so the id becomes `<protocol>+<kind>`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ttsbench.core import InvalidInput, Problem
from ttsbench.score.asr import AsrSpec
from ttsbench.score.asr.endpoint import EndpointSpec
from ttsbench.score.asr.faster_whisper_hub import FasterWhisperHubSpec
from ttsbench.score.asr.openai_whisper import GREEDY_ENGLISH, OpenAIWhisperSpec
from ttsbench.score.asr.recorded import RecordedSpec
from ttsbench.score.asr.transformers_whisper import TransformersWhisperSpec
from ttsbench.score.policy import LongAudio
from ttsbench.score.protocol import ScoringProtocol

FORM = "KIND:WHERE, KIND being recorded, endpoint, whisper, faster-whisper or transformers"


def with_recogniser(protocol: ScoringProtocol, asr: str) -> ScoringProtocol:
    """`protocol`, heard by the recogniser `asr`, long audio whole. Raises InvalidInput for one that is none."""
    kind, colon, where = asr.partition(":")
    if kind not in _KINDS or not colon or not where:
        raise InvalidInput(Problem("--asr", FORM, asr))
    spec = _KINDS[kind](where, protocol.language)
    return replace(protocol, id=f"{protocol.id}+{kind}", asr=spec, long_audio=LongAudio.WHOLE)


def _recorded(where: str, language: str) -> AsrSpec:
    return RecordedSpec(Path(where), f"whoever wrote {Path(where).name}")


def _endpoint(where: str, language: str) -> AsrSpec:
    url, mark, model = where.rpartition("#")
    if not mark or not model or not url.startswith(("http://", "https://")):
        hint = "endpoint:http://localhost:8000/v1/audio/transcriptions#whisper-1"
        raise InvalidInput(Problem("--asr", "endpoint:URL#MODEL", f"endpoint:{where}", hint))
    return EndpointSpec(url, model, fields={"language": language, "temperature": "0"})


def _whisper(where: str, language: str) -> AsrSpec:
    return OpenAIWhisperSpec(where, options={**GREEDY_ENGLISH, "language": language})


def _faster_whisper(where: str, language: str) -> AsrSpec:
    return FasterWhisperHubSpec(where, None, compute_type="default", options={"language": language})


def _transformers(where: str, language: str) -> AsrSpec:
    english_alone = where.rstrip("/").endswith(".en")
    generate = {} if english_alone else {"language": language, "task": "transcribe"}
    return TransformersWhisperSpec(where, None, LongAudio.WHOLE, generate=generate)


_KINDS: dict[str, Callable[[str, str], AsrSpec]] = {
    "recorded": _recorded,
    "endpoint": _endpoint,
    "whisper": _whisper,
    "faster-whisper": _faster_whisper,
    "transformers": _transformers,
}
