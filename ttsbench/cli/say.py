"""`ttsbench say`: one sentence to one WAV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ttsbench.cli import options
from ttsbench.cli.failures import ROWS_FAILED, reported, say_to_user

if TYPE_CHECKING:
    from ttsbench.adapters.native import NativeEngine
    from ttsbench.core import Problem, SpeechRequest, Voice


def say(
    text: Annotated[str, typer.Argument(help="What to say.")],
    out: Annotated[Path, typer.Option(help="WAV file to write; must not exist.")],
    model: options.Model = "tiny",
    voice: options.VoiceName = None,
    instruct: options.Instruct = None,
    reference: Annotated[Path | None, typer.Option(help="Clip whose voice to clone (Base).")] = None,
    transcript: Annotated[str | None, typer.Option(help="What the clip says; clones in context (Base).")] = None,
    language: options.Language = "auto",
    seed: options.Seed = None,
    max_frames: options.MaxFrames = None,
    profile: options.ProfileName = options.DEFAULT_PROFILE,
    override: options.Overrides = None,
) -> None:
    """Speak TEXT and write it to a WAV file."""
    with reported():
        from ttsbench.adapters.native import NativeEngine
        from ttsbench.experiment.voice import checkpoint_voice, drawn_seed, parse_overrides
        from ttsbench.core import InvalidInput, Problem, SpeechRequest
        from ttsbench.corpus import text_problem
        from ttsbench.profile import load_profile

        problems: list[Problem] = _output_problems(out)
        overrides = parse_overrides(override or [], problems)
        if problem := text_problem(text):
            raise InvalidInput([*problems, Problem("TEXT", "something to say", f"{problem.code}: {problem}")])
        if problems:
            raise InvalidInput(problems)
        engine = NativeEngine(model, load_profile(profile, overrides))
        named = checkpoint_voice(engine, voice, instruct, problems)
        speaker = _voice(named, reference, transcript, problems)
        problems += engine.problems(speaker, language) if speaker else []
        if problems or speaker is None:
            raise InvalidInput(problems)
        info = engine.info()
        limit = info.default_max_frames if max_frames is None else max_frames
        used_seed = drawn_seed() if seed is None else seed
        _speak(engine, SpeechRequest("say", "say", text, speaker, used_seed, limit, language, info.default_sampling), out)


def _output_problems(out: Path) -> list[Problem]:
    from ttsbench.core import Problem

    if out.exists():
        return [Problem(f"--out {out}", "a file that does not exist yet", "one that does", "give another name")]
    if not out.absolute().parent.is_dir():
        return [Problem(f"--out {out}", "an existing folder to write into", f"no folder {out.parent}")]
    return []


def _voice(
    named: Voice | None, reference: Path | None, transcript: str | None, problems: list[Problem]
) -> Voice | None:
    """The voice to speak with; a Base checkpoint needs a clip, the others take none."""
    from ttsbench.core import Problem, ReferenceVoice, RowError
    from ttsbench.corpus import read_reference

    if named is not None:
        if reference is not None or transcript is not None:
            problems.append(Problem("--reference, --transcript", "none: this checkpoint clones no voice", str(reference)))
        return named
    if reference is None:
        problems.append(Problem("--reference", "a clip to clone, since the checkpoint is a Base one", "none"))
        return None
    try:
        read_reference(reference)
    except RowError as error:
        problems.append(Problem("--reference", "a clip of speech", f"{error.code}: {error}"))
    return ReferenceVoice(reference, transcript)


def _speak(engine: NativeEngine, request: SpeechRequest, out: Path) -> None:
    """Run one request and write its audio. Exits with 4 when there is none, or when it was cut."""
    import numpy as np

    from ttsbench.core import FinishReason
    from ttsbench.records.wav import to_pcm16, write_wav

    engine.submit(request)
    chunks = list(engine.chunks())
    last, finish = chunks[-1], chunks[-1].finish
    if finish is None or finish.reason is FinishReason.FAILED or last.frames[1] == 0:
        why = f"{finish.code}: {finish.detail}" if finish and finish.code else "the model ended without a frame"
        say_to_user(f"no audio: {why} (seed {request.seed})")
        raise typer.Exit(ROWS_FAILED)
    pcm = np.concatenate([chunk.pcm for chunk in chunks])
    write_wav(out, to_pcm16(pcm), last.sample_rate_hz)
    say_to_user(f"{out}: {len(pcm) / last.sample_rate_hz:.2f} s, seed {request.seed}")
    if finish.reason is FinishReason.LENGTH:
        say_to_user(f"cut at its limit of {last.frames[1]} frames; raise --max-frames")
        raise typer.Exit(ROWS_FAILED)
