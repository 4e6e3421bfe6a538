"""The code predictor: a frame's first code and the talker's hidden state in, codes 1..Q-1 out.

For every frame it starts from nothing: positions 0 and 1 are the talker's hidden state and the embedding of code 0,
position j is the embedding of code j - 1, and head j - 1 at the newest position gives code j. Code 0 is embedded by the
talker's table, code j >= 1 by table j - 1 here; all tables have the talker's width and pass through one projection (the
identity where both widths agree).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.transformer import DecoderStack, DenseCache, Embedding

Draw = Callable[[int, Tensor], Tensor]
"""(codebook, float32 logits [B, codebook size]) -> codes [B]."""


class PredictorStack(DecoderStack):
    """Decoder layers beside the Q - 1 embedding tables, as the published files group them."""

    def __init__(self, config: Qwen3TTSConfig) -> None:
        super().__init__(config.predictor)
        width, books = config.talker.hidden_size, config.num_codebooks - 1
        self.codec_embedding = nn.ModuleList(Embedding(config.codebook_size, width) for _ in range(books))


class CodePredictor(nn.Module):
    """Fills codebooks 1..Q-1 of one frame per row."""

    def __init__(self, config: Qwen3TTSConfig) -> None:
        super().__init__()
        self.config = config
        talker_width, width = config.talker.hidden_size, config.predictor.hidden_size
        self.model = PredictorStack(config)
        self.lm_head = nn.ModuleList(
            nn.Linear(width, config.codebook_size, bias=False) for _ in range(config.num_codebooks - 1)
        )
        self.small_to_mtp_projection = nn.Linear(talker_width, width) if talker_width != width else nn.Identity()

    def embed_rest(self, codes: Tensor) -> Tensor:
        """Sum of the embeddings of codes 1..Q-1: `codes` [N, Q - 1] to talker rows [N, D], added in codebook order."""
        tables = self.model.codec_embedding
        total = tables[0](codes[:, 0])
        for book in range(1, codes.shape[1]):
            total = total + tables[book](codes[:, book])
        return total

    def forward(self, hidden: Tensor, code0_row: Tensor, draw: Draw) -> Tensor:
        """Codes 1..Q-1 [B, Q - 1] from the talker's `hidden` [B, D] and the embedding of code 0, `code0_row` [B, D]."""
        cache = DenseCache(self.config.predictor, hidden.shape[0], self.config.num_codebooks, hidden)
        rows = torch.stack((hidden, code0_row), dim=1)
        codes: list[Tensor] = []
        for book, head in enumerate(self.lm_head, start=1):
            x = self._step(rows, cache)
            codes.append(draw(book, head(x).float()))
            if book < len(self.lm_head):
                rows = self.model.codec_embedding[book - 1](codes[-1])[:, None]
        return torch.stack(codes, dim=1)

    def _step(self, rows: Tensor, cache: DenseCache) -> Tensor:
        """Feed `rows` [B, T, talker width] at the next T positions; hidden state [B, width] of the last one."""
        steps = rows.shape[1]
        positions = torch.arange(cache.length, cache.length + steps, device=rows.device)
        x = self.model.run(self.small_to_mtp_projection(rows), positions, cache.attend)
        cache.advance(steps)
        return x[:, -1]
