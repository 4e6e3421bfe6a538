"""The codec: both directions under the names of the published `speech_tokenizer/model.safetensors`."""

from __future__ import annotations

from torch import nn

from ttsbench.models.qwen3_tts.codec_config import CodecConfig
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.codec_encoder import CodecEncoder


class Codec(nn.Module):
    """`decoder.*` and `encoder.*`. Call `finalize` after loading weights and before lowering their precision."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        self.decoder = CodecDecoder(config.decoder)
        self.encoder = CodecEncoder(config.encoder)

    def finalize(self) -> None:
        """Compute codebook rows and Snake's exponentials from the weights. Loading weights again undoes it."""
        self.decoder.finalize()
        self.encoder.finalize()
