"""`say`: one sentence, checked, spoken and handed back whole."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ttsbench.adapters.native import NativeEngine, served_problems
from ttsbench.core import Engine, Finish, InvalidInput, Problem, ReferenceVoice, RowError, SpeechRequest, Voice
from ttsbench.corpus import read_reference, text_problem
from ttsbench.experiment.options import SpeechOptions, drawn_seed, load_settings
from ttsbench.experiment.voice import checkpoint_voice
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.records import unwritable


@dataclass(frozen=True)
class SayOptions:
    """What a user asked of `say`."""

    text: str
    out: Path
    speech: SpeechOptions
    reference: Path | None
    transcript: str | None


@dataclass(frozen=True)
class Spoken:
    """Audio of one utterance: `pcm` [S] as the engine gave it."""

    pcm: np.ndarray
    sample_rate_hz: int
    frames: int
    finish: Finish


def prepare_utterance(options: SayOptions) -> tuple[NativeEngine, SpeechRequest]:
    """An engine and the request to hand it. Raises InvalidInput holding every fault found in any option."""
    problems = _out_problems(options.out)
    if fault := text_problem(options.text):
        problems.append(Problem("TEXT", "something to say", f"{fault.code}: {fault}"))
    profile, config = load_settings(options.speech, problems)
    voice = None if config is None else _voice(options, config, problems)
    if config is not None and voice is not None:
        problems += served_problems(config, voice, options.speech.language)
    if problems or profile is None or voice is None:
        raise InvalidInput(problems)
    engine = NativeEngine(options.speech.model, profile)
    return engine, _request(options, voice, engine)


def speak(engine: Engine, request: SpeechRequest) -> Spoken:
    """Run one request to its end."""
    engine.submit(request)
    chunks = list(engine.chunks())
    last = chunks[-1]
    if last.finish is None:
        raise RuntimeError("the engine ended without a final chunk")
    pcm = np.concatenate([chunk.pcm for chunk in chunks])
    return Spoken(pcm, last.sample_rate_hz, last.frames[1], last.finish)


def _out_problems(out: Path) -> list[Problem]:
    where, folder = f"--out {out}", os.path.dirname(os.path.abspath(out))
    if os.path.lexists(out):
        return [Problem(where, "a file that does not exist yet", "one that does", "give another name")]
    if not os.path.isdir(folder):
        return [Problem(where, "an existing folder to write into", f"no folder {folder}")]
    if why := unwritable(Path(folder)):
        return [Problem(where, "a folder that can be written to", why)]
    return []


def _voice(options: SayOptions, config: Qwen3TTSConfig, problems: list[Problem]) -> Voice | None:
    """The voice to speak with; a Base checkpoint needs a clip, the others take none."""
    voice = checkpoint_voice(config, options.speech.voice, options.speech.instruct, problems)
    if voice is not None:
        for name, given in (("--reference", options.reference), ("--transcript", options.transcript)):
            if given is not None:
                expected = f"none: this checkpoint is {config.model_type.value} and clones no voice"
                problems.append(Problem(name, expected, repr(str(given))))
        return voice
    if options.transcript is not None and (fault := text_problem(options.transcript)):
        problems.append(Problem("--transcript", "what the clip says", f"{fault.code}: {fault}", "or leave it out"))
    if options.reference is None:
        problems.append(Problem("--reference", "a clip to clone, since the checkpoint is a Base one", "none"))
        return None
    try:
        read_reference(options.reference)
    except RowError as error:
        problems.append(Problem("--reference", "a clip of speech", f"{error.code}: {error}"))
    return ReferenceVoice(options.reference, options.transcript)


def _request(options: SayOptions, voice: Voice, engine: NativeEngine) -> SpeechRequest:
    speech, info = options.speech, engine.info()
    return SpeechRequest(
        id="say",
        utterance_id="say",
        text=options.text,
        voice=voice,
        seed=drawn_seed() if speech.seed is None else speech.seed,
        max_frames=info.default_max_frames if speech.max_frames is None else speech.max_frames,
        language=speech.language,
        sampling=info.default_sampling,
        text_layout=speech.text_layout or info.default_text_layout,
    )
