"""A look into a checkpoint folder before its weights are loaded: is all there, and what does it serve?"""

from __future__ import annotations

from ttsbench.adapters.faults import attempt
from ttsbench.core import InvalidInput, Problem
from ttsbench.models.qwen3_tts.checkpoint import CODEC_FOLDER
from ttsbench.models.qwen3_tts.codec_config import CodecConfig
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.tokenizer import TextTokenizer
from ttsbench.models.qwen3_tts.weights import weight_files
from ttsbench.models.source import resolve_checkpoint


def checkpoint_config(model: str) -> Qwen3TTSConfig:
    """The config of an embedded name, a folder or a hub id. Raises InvalidInput listing every file that will not do."""
    folder = resolve_checkpoint(model)
    problems: list[Problem] = []
    config = attempt(problems, lambda: Qwen3TTSConfig.from_folder(folder))
    attempt(problems, lambda: TextTokenizer.from_folder(folder))
    attempt(problems, lambda: weight_files(folder))
    attempt(problems, lambda: CodecConfig.from_json(folder / CODEC_FOLDER / "config.json"))
    attempt(problems, lambda: weight_files(folder / CODEC_FOLDER))
    if problems or config is None:
        raise InvalidInput(problems)
    return config
