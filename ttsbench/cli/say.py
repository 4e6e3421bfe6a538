"""`ttsbench say`: one sentence to one WAV."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ttsbench.cli import options
from ttsbench.cli.failures import ROWS_FAILED, reported, say_to_user

if TYPE_CHECKING:
    from ttsbench.core import SpeechRequest
    from ttsbench.experiment.utterance import Spoken


def say(
    text: Annotated[str, typer.Argument(help="What to say.")],
    out: Annotated[Path, typer.Option(help="WAV file to write; must not exist.")],
    model: options.Model = "tiny",
    voice: options.VoiceName = None,
    instruct: options.Instruct = None,
    reference: Annotated[Path | None, typer.Option(help="Clip whose voice to clone (Base).")] = None,
    transcript: Annotated[str | None, typer.Option(help="What the clip says; else cloned by speaker vector.")] = None,
    language: options.Language = "auto",
    text_layout: options.Layout = None,
    seed: options.Seed = None,
    max_frames: options.MaxFrames = None,
    profile: options.ProfileName = options.DEFAULT_PROFILE,
    override: options.Overrides = None,
) -> None:
    """Speak TEXT and write it to a WAV file."""
    with reported():
        from ttsbench.experiment.options import SpeechOptions
        from ttsbench.experiment.utterance import SayOptions, prepare_utterance, speak

        speech = SpeechOptions(
            model=model, voice=voice, instruct=instruct, language=language, text_layout=text_layout,
            seed=seed, max_frames=max_frames, profile=profile, overrides=tuple(override or ()),
        )  # fmt: skip
        engine, request = prepare_utterance(SayOptions(text, out, speech, reference, transcript))
        with closing(engine):
            _write(out, speak(engine, request), request)


def _write(out: Path, spoken: Spoken, request: SpeechRequest) -> None:
    """Write what was said and tell about it. Exits with 4 when there is nothing, or when it was cut."""
    from ttsbench.core import FinishReason
    from ttsbench.records.wav import to_pcm16, write_wav

    finish = spoken.finish
    if finish.reason is FinishReason.FAILED or spoken.frames == 0:
        why = f"{finish.code}: {finish.detail}" if finish.code else "the model ended without a frame"
        say_to_user(f"no audio: {why} (seed {request.seed})")
        raise typer.Exit(ROWS_FAILED)
    write_wav(out, to_pcm16(spoken.pcm), spoken.sample_rate_hz)
    say_to_user(f"{out}: {len(spoken.pcm) / spoken.sample_rate_hz:.2f} s, seed {request.seed}")
    if finish.reason is FinishReason.LENGTH:
        say_to_user(_why_cut(spoken.frames, request.max_frames))
        raise typer.Exit(ROWS_FAILED)


def _why_cut(frames: int, max_frames: int) -> str:
    """Which limit cut an utterance after `frames` codec frames, and what to change."""
    if frames < max_frames:
        return f"cut after {frames} frames, all that the model length leaves; raise max_model_len (profile)"
    return f"cut at its limit of {frames} frames; raise --max-frames"
