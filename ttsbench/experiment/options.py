"""What every speaking command asks for, checked as far as possible before any weights are read."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from ttsbench.adapters.checkpoint_folder import checkpoint_config
from ttsbench.adapters.faults import attempt
from ttsbench.adapters.native import profile_problems
from ttsbench.core import Problem, TextLayout
from ttsbench.core.request import SEED_LIMIT
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.profile import Profile, load_profile


@dataclass(frozen=True)
class SpeechOptions:
    """Model, voice and settings as typed; None leaves the choice to profile, checkpoint or chance."""

    model: str
    voice: str | None
    instruct: str | None
    language: str
    text_layout: TextLayout | None
    seed: int | None
    max_frames: int | None
    profile: str
    overrides: tuple[str, ...]


def load_settings(options: SpeechOptions, problems: list[Problem]) -> tuple[Profile | None, Qwen3TTSConfig | None]:
    """Profile and checkpoint config, each None if it is at fault; all faults of both are added to `problems`."""
    overrides = parse_overrides(options.overrides, problems)
    profile = attempt(problems, lambda: load_profile(options.profile, overrides))
    if profile is not None:
        problems += profile_problems(profile)
    return profile, attempt(problems, lambda: checkpoint_config(options.model))


def parse_overrides(pairs: tuple[str, ...], problems: list[Problem]) -> dict[str, str]:
    """`key=value` options as a map."""
    overrides: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            problems.append(Problem("--override", "key=value", repr(pair), "such as --override max_num_seqs=4"))
        elif key in overrides:
            problems.append(Problem(f"--override {key}", "one value", f"{overrides[key]!r} and {value!r}"))
        else:
            overrides[key] = value
    return overrides


def drawn_seed() -> int:
    """A seed for somebody who gave none; it is recorded, so the run can be repeated."""
    return secrets.randbelow(SEED_LIMIT)
