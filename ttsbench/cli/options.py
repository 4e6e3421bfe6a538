"""Options that several commands share, each with one meaning and one help text."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_PROFILE = "qwen3_tts_fused_cpu"

Model = Annotated[str, typer.Option(help="Checkpoint: tiny, a folder, or a hub id.")]
VoiceName = Annotated[str | None, typer.Option(help="Named voice (CustomVoice); the checkpoint's first by default.")]
Instruct = Annotated[str | None, typer.Option(help="How to speak (CustomVoice), or the voice to make up (VoiceDesign).")]
Language = Annotated[str, typer.Option(help="Language name or code; auto leaves it to the model.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Makes the noise repeatable; drawn and recorded when absent.")]
MaxFrames = Annotated[int | None, typer.Option(min=1, help="Length limit of an utterance in 80 ms codec frames.")]
ProfileName = Annotated[str, typer.Option("--profile", help="A shipped profile's name, or a .yaml file.")]
Overrides = Annotated[list[str] | None, typer.Option("--override", help="Profile key=value; may be repeated.")]
