"""A published checkpoint folder, loaded: everything needed to turn a request into sound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ttsbench.core import InvalidInput, Problem
from ttsbench.models.qwen3_tts.codec import Codec
from ttsbench.models.qwen3_tts.codec_config import CodecConfig
from ttsbench.models.qwen3_tts.config import GenerationDefaults, ModelType, Qwen3TTSConfig, read_json
from ttsbench.models.qwen3_tts.prompt import PromptBuilder
from ttsbench.models.qwen3_tts.speaker_encoder import SpeakerEncoder, SpeakerEncoderConfig
from ttsbench.models.qwen3_tts.talker import Talker
from ttsbench.models.qwen3_tts.tokenizer import TextTokenizer
from ttsbench.models.qwen3_tts.weights import load_weights

CODEC_FOLDER = "speech_tokenizer"


class Qwen3TTS(nn.Module):
    """The modules of the main weight file: talker (with its code predictor) and, for Base, the speaker encoder."""

    def __init__(self, config: Qwen3TTSConfig, speaker_encoder: SpeakerEncoderConfig | None = None) -> None:
        super().__init__()
        self.talker = Talker(config)
        self.speaker_encoder = None if speaker_encoder is None else SpeakerEncoder(speaker_encoder)


@dataclass(frozen=True)
class Checkpoint:
    """One loaded checkpoint. `model` and `codec` are frozen modules on one device, each in its own dtype."""

    folder: Path
    config: Qwen3TTSConfig
    defaults: GenerationDefaults
    tokenizer: TextTokenizer
    model: Qwen3TTS
    codec: Codec

    @property
    def prompts(self) -> PromptBuilder:
        return PromptBuilder(self.model.talker, self.config, self.tokenizer)

    @classmethod
    def load(
        cls,
        folder: Path,
        device: torch.device,
        dtype: torch.dtype,
        codec_dtype: torch.dtype | None = None,
        tokenizer_split: str = "qwen2",
        tokenizer: TextTokenizer | None = None,
    ) -> Checkpoint:
        """Load a folder in the published layout. Raises InvalidInput listing what is missing or does not fit.

        `tokenizer` stands in for the folder's own where the library that reads it is not installed.
        """
        data = read_json(folder / "config.json")
        config = Qwen3TTSConfig.from_dict(data, str(folder / "config.json"))
        is_base = config.model_type is ModelType.BASE
        speaker_encoder = SpeakerEncoderConfig.from_json(data, str(folder / "config.json")) if is_base else None
        codec_folder = folder / CODEC_FOLDER
        codec_config = CodecConfig.from_json(codec_folder / "config.json")
        problems = list(_disagreements(config, codec_config, speaker_encoder, folder))
        if problems:
            raise InvalidInput(problems)
        if tokenizer is None:
            tokenizer = TextTokenizer.from_folder(folder, tokenizer_split)
        with torch.device("meta"):
            model, codec = Qwen3TTS(config, speaker_encoder), Codec(codec_config)
        load_weights(model, folder, device, dtype)
        load_weights(codec, codec_folder, device, torch.float32)
        codec.finalize()
        codec.to(codec_dtype or dtype)
        defaults = GenerationDefaults.from_folder(folder, config.model_type)
        return cls(folder, config, defaults, tokenizer, model.eval(), codec.eval())


def _disagreements(
    config: Qwen3TTSConfig, codec: CodecConfig, speaker_encoder: SpeakerEncoderConfig | None, folder: Path
) -> Iterator[Problem]:
    """Sizes that two parts of a checkpoint share and give differently."""
    codec_file = str(folder / CODEC_FOLDER / "config.json")
    if codec.decoder.num_codebooks != config.num_codebooks:
        yield Problem(
            codec_file, f"{config.num_codebooks} codebooks as in config.json", str(codec.decoder.num_codebooks)
        )
    for part, size in (("decoder", codec.decoder.codebook_size), ("encoder", codec.encoder.codebook_size)):
        if size != config.codebook_size:
            expected = f"{config.codebook_size} as the code predictor's vocab_size"
            yield Problem(f"{codec_file}: {part}_config: codebook_size", expected, str(size))
    if speaker_encoder is not None and speaker_encoder.enc_dim != config.talker.hidden_size:
        where = f"{folder / 'config.json'}: speaker_encoder_config: enc_dim"
        yield Problem(where, f"the talker's width {config.talker.hidden_size}", str(speaker_encoder.enc_dim))
