"""Goldens of the order of sampling steps: random logits through the processors that the package's own call builds."""

from __future__ import annotations

from typing import Any

import official
import torch
from torch import Tensor

HISTORIES: dict[str, list[int]] = {"none": [], "one": [5], "repeats": [5, 5, 7, 1999, 0, 5, 7]}
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "default": {"do_sample": True, "temperature": 0.9, "top_k": 50, "top_p": 1.0},
    "nucleus": {"do_sample": True, "temperature": 0.9, "top_k": 50, "top_p": 0.8},
    "nucleus_alone": {"do_sample": True, "temperature": 0.7, "top_k": 0, "top_p": 0.8},
    "narrow": {"do_sample": True, "temperature": 0.6, "top_k": 5, "top_p": 1.0, "repetition_penalty": 1.3},
}


def sampling(wrapper: Any) -> dict[str, Tensor]:
    """Keys `<setting>.<logits>.<history>`: the ids that keep a probability, ascending, and their probabilities."""
    generator = torch.Generator().manual_seed(99)
    smooth = torch.randn(3072, generator=generator) * 4
    smooth[[5, 7, 1999, 2150]] = torch.tensor([16.0, -1.0, 11.0, 15.5])
    tied = (torch.randn(3072, generator=generator) * 2).round() / 2 + 4
    logits = {"smooth": smooth, "tied": tied}
    tensors = {f"logits.{name}": value for name, value in logits.items()}
    tensors |= {f"history.{name}": torch.tensor(ids, dtype=torch.int32) for name, ids in HISTORIES.items()}
    for setting, arguments in SETTINGS.items():
        process = _processors(wrapper, arguments)
        for name, row in logits.items():
            for history, ids in HISTORIES.items():
                scores = process(torch.tensor([ids], dtype=torch.long), row[None].clone())[0]
                tensors |= _kept(f"{setting}.{name}.{history}", scores, greedy=setting == "greedy")
    return tensors


def _processors(wrapper: Any, arguments: dict[str, Any]) -> Any:
    """The list that `generate` applies for these arguments, taken while it runs."""
    talker, made = wrapper.model.talker, []
    inner = talker._get_logits_processor

    def spy(*args: Any, **kwargs: Any) -> Any:
        made.append(inner(*args, **kwargs))
        return made[-1]

    talker._get_logits_processor = spy
    try:
        call = {"text": "a", "speaker": "serena", "max_new_tokens": 2, "subtalker_dosample": False, **arguments}
        official.watch(wrapper, "generate_custom_voice", **call)
    finally:
        del talker._get_logits_processor
    return made[0]


def _kept(key: str, scores: Tensor, greedy: bool) -> dict[str, Tensor]:
    if greedy:
        return {f"{key}.scores": scores}
    probabilities = scores.softmax(-1)
    ids = probabilities.nonzero()[:, 0]
    return {f"{key}.ids": ids.to(torch.int32), f"{key}.probabilities": probabilities[ids]}
