"""Options that several commands share, each with one meaning and one help text."""

from __future__ import annotations

from typing import Annotated

import typer

from ttsbench.core.request import SEED_LIMIT, TextLayout

DEFAULT_PROFILE = "qwen3_tts_fused_cpu"

_INSTRUCT = "How to speak (CustomVoice), or the voice to make up (VoiceDesign)."
_LAYOUT = "Text one token per frame, or whole in the prompt; by default what profile and checkpoint say."
_SEED = "Makes the noise repeatable; drawn and recorded when absent."

Model = Annotated[str, typer.Option(help="Checkpoint: tiny, tiny-base, a folder, or a hub id.")]
VoiceName = Annotated[str | None, typer.Option(help="Named voice (CustomVoice); the checkpoint's first by default.")]
Instruct = Annotated[str | None, typer.Option(help=_INSTRUCT)]
Language = Annotated[str, typer.Option(help="Language name or code; auto leaves it to the model.")]
Layout = Annotated[TextLayout | None, typer.Option("--text-layout", help=_LAYOUT)]
Seed = Annotated[int | None, typer.Option(min=0, max=SEED_LIMIT - 1, help=_SEED)]
MaxFrames = Annotated[int | None, typer.Option(min=1, help="Length limit of an utterance in 80 ms codec frames.")]
ProfileName = Annotated[str, typer.Option("--profile", help="A shipped profile's name, or a .yaml file.")]
Overrides = Annotated[list[str] | None, typer.Option("--override", help="Profile key=value; may be repeated.")]
