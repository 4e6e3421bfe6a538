"""Settings that exclude each other. They are judged on the merged result, since a base file and its overlay may each be
fine alone, and every message names both options and where each was set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ttsbench.core import Problem
from ttsbench.profile.layer import Layer
from ttsbench.profile.scalar import show
from ttsbench.profile.types import KEYS


@dataclass(frozen=True)
class Conflict:
    """`broken` is given the values of `keys` in order; the first key is the one that has to give way."""

    keys: tuple[str, ...]
    broken: Callable[..., bool]
    expected: str
    hint: str


FUSED, TWO_STAGE = "qwen3_tts_fused", "qwen3_tts"

CONFLICTS = (
    Conflict(
        ("talker_stream_decode", "pipeline"),
        lambda stream, pipeline: stream and pipeline == TWO_STAGE,
        "false, since the codec is a stage of its own",
        f"for a talker that decodes set pipeline: {FUSED}",
    ),
    Conflict(
        ("talker_stream_decode", "pipeline"),
        lambda stream, pipeline: not stream and pipeline == FUSED,
        "true, since the talker owns the codec",
        f"set talker_stream_decode: true, or pipeline: {TWO_STAGE} for a codec stage of its own",
    ),
    Conflict(
        ("talker_first_audio", "talker_stream_decode"),
        lambda first, stream: first and stream,
        "false, since the talker's streaming decoder already makes the first frame",
        "for early first audio from that decoder set talker_stream_first_audio",
    ),
    Conflict(
        ("talker_stream_first_audio", "talker_stream_decode"),
        lambda first, stream: first and not stream,
        "false, since there is no streaming decoder to take the first frame from",
        "for first audio in two stages set talker_first_audio",
    ),
    Conflict(
        ("codec_left_context_frames", "pipeline"),
        lambda context, pipeline: context is not None and pipeline == FUSED,
        "null, since the fused codec keeps its state",
        "left context belongs to windowed decoding in two stages",
    ),
    Conflict(
        ("default_sampling_params.min_tokens", "default_sampling_params.max_tokens"),
        lambda least, most: least is not None and most is not None and least > most,
        "at most max_tokens",
        "",
    ),
    Conflict(
        ("num_kv_blocks", "max_model_len", "block_size"),
        lambda blocks, length, size: blocks is not None and blocks * size < length,
        "blocks for at least one whole request (max_model_len / block_size)",
        "a request that long could never run",
    ),
)


def find_conflicts(merged: Layer) -> list[Problem]:
    """Every conflict among settings that are themselves sound."""
    checkable = (conflict for conflict in CONFLICTS if merged.faulty.isdisjoint(conflict.keys))
    return [_problem(merged, c) for c in checkable if c.broken(*(_value(merged, key) for key in c.keys))]


def _problem(merged: Layer, conflict: Conflict) -> Problem:
    subject, *others = conflict.keys
    beside = ", ".join(f"{key}: {show(_value(merged, key))} ({_origin(merged, key)})" for key in others)
    expected = f"{conflict.expected}, with {beside}"
    return Problem(f"{_origin(merged, subject)} {subject}", expected, show(_value(merged, subject)), conflict.hint)


def _value(merged: Layer, key: str) -> object:
    return merged.settings[key].value if key in merged.settings else KEYS[key].default


def _origin(merged: Layer, key: str) -> str:
    return merged.settings[key].origin if key in merged.settings else "default"
