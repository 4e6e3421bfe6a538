"""A talker whose rows spell themselves, so that a prompt can be read: a row is [text id, codec id], 0 for none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor

from tests.models.qwen3_tts.exactness import GOLDEN
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.prompt import Prompt, PromptBuilder
from ttsbench.models.qwen3_tts.tokenizer import TextTokenizer

FRAME = 10_000
"""A reference frame of code c in codebook 0 spells FRAME + c."""


class SpelledTalker:
    """Stands in for `Talker` where only its embeddings are asked for."""

    codec_head = SimpleNamespace(weight=torch.zeros(1))

    def embed_text(self, ids: Tensor) -> Tensor:
        return torch.stack((ids, torch.zeros_like(ids)), dim=-1)

    def embed_codec(self, ids: Tensor) -> Tensor:
        return torch.stack((torch.zeros_like(ids), ids), dim=-1)

    def embed_frames(self, codes: Tensor) -> Tensor:
        return self.embed_codec(FRAME + codes[:, 0])


def toy_tokenizer(split: str = "qwen2") -> TextTokenizer:
    return TextTokenizer.from_folder(GOLDEN / "toy-base", split)


def spelled_prompts(config: dict[str, Any]) -> PromptBuilder:
    """A builder for the parsed `config.json` `config`, with the toy tokenizer."""
    return PromptBuilder(cast(Any, SpelledTalker()), Qwen3TTSConfig.from_dict(config), toy_tokenizer())


def rows(prompt: Prompt) -> list[tuple[int, int]]:
    return [(text, codec) for text, codec in prompt.rows.tolist()]


def trailing(prompt: Prompt) -> list[int]:
    """Text ids of the trailing rows, which have no codec side."""
    assert not prompt.trailing[:, 1].any()
    return prompt.trailing[:, 0].tolist()
