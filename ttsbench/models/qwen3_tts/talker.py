"""The talker: text and voice in, the first code of each codec frame out.

One row of the talker's input is a projected text token T(id), a codec embedding C(id), their sum, or T + a speaker
vector; `prompt.py` arranges them. After the prompt, frame k feeds back the sum of its Q code embeddings plus one text
row. The output after the final norm goes to `codec_head` (first code of the next frame) and to the code predictor.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from ttsbench.models.qwen3_tts.code_predictor import CodePredictor
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.transformer import Attend, DecoderStack, Embedding


class TextProjection(nn.Module):
    """Text width to talker width: fc2(silu(fc1(x))), both biased."""

    def __init__(self, text_width: int, width: int) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(text_width, text_width)
        self.linear_fc2 = nn.Linear(text_width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_fc2(F.silu(self.linear_fc1(x)))


class TalkerStack(DecoderStack):
    """Decoder layers beside the two embedding tables, as the published files group them."""

    def __init__(self, config: Qwen3TTSConfig) -> None:
        super().__init__(config.talker)
        self.codec_embedding = Embedding(config.talker_vocab_size, config.talker.hidden_size)
        self.text_embedding = Embedding(config.text_vocab_size, config.text_hidden_size)


class Talker(nn.Module):
    """Embeddings, decoder, head and code predictor of one checkpoint."""

    def __init__(self, config: Qwen3TTSConfig) -> None:
        super().__init__()
        self.model = TalkerStack(config)
        self.text_projection = TextProjection(config.text_hidden_size, config.talker.hidden_size)
        self.codec_head = nn.Linear(config.talker.hidden_size, config.talker_vocab_size, bias=False)
        self.code_predictor = CodePredictor(config)

    def embed_text(self, ids: Tensor) -> Tensor:
        """T(ids): text ids [...] to talker rows [..., D]."""
        return self.text_projection(self.model.text_embedding(ids))

    def embed_codec(self, ids: Tensor) -> Tensor:
        """C(ids): codes of codebook 0 or control ids [...] to talker rows [..., D]."""
        return self.model.codec_embedding(ids)

    def embed_frames(self, codes: Tensor) -> Tensor:
        """Sum of the Q code embeddings of each frame: `codes` [N, Q] to talker rows [N, D]."""
        return self.embed_codec(codes[:, 0]) + self.code_predictor.embed_rest(codes[:, 1:])

    def forward(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states [..., D] (after the final norm) of input rows `x` [..., D] at `positions` [...]."""
        return self.model.run(x, positions, attend)

    def logits(self, hidden: Tensor) -> Tensor:
        """Float32 logits [..., talker vocabulary] over the next frame's first code."""
        return self.codec_head(hidden).float()
