"""Codes -> vectors: one semantic codebook and Q - 1 acoustic ones, each group summed and projected on its own.

A codebook row is embedding_sum / max(cluster_usage, 1e-5), the mean of the vectors that training assigned to it. Rows
are computed once, in float32 at least. `input_proj` belongs to the published file and has no use in this direction.

Shapes: B rows, n frames, Q codebooks, N codebook size, E row width (half the vector width D).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ttsbench.models.qwen3_tts.codec_config import NUM_SEMANTIC, CodecDecoderConfig
from ttsbench.models.qwen3_tts.codec_layers import Derived

USAGE_FLOOR = 1e-5
"""Rows that training never used have a usage of 0."""


def codebook_rows(sums: Tensor, usage: Tensor) -> Tensor:
    """Rows [N, E] of one codebook from its `sums` [N, E] and `usage` [N], in float32 at least."""
    kind = torch.promote_types(sums.dtype, torch.float32)
    return sums.to(kind) / usage.to(kind).clamp(min=USAGE_FLOOR).unsqueeze(1)


class _Codebook(nn.Module):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.register_buffer("cluster_usage", torch.ones(size))
        self.register_buffer("embedding_sum", torch.zeros(size, width))

    def rows(self) -> Tensor:
        return codebook_rows(self.get_buffer("embedding_sum"), self.get_buffer("cluster_usage"))


class _VectorQuantizer(nn.Module):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self._codebook = _Codebook(size, width)


class _Residual(nn.Module):
    def __init__(self, count: int, size: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_VectorQuantizer(size, width) for _ in range(count))


class _Group(nn.Module):
    """Codebooks that share a projection."""

    def __init__(self, count: int, config: CodecDecoderConfig) -> None:
        super().__init__()
        width = config.codebook_dim // 2
        self.input_proj = nn.Conv1d(config.codebook_dim, width, 1, bias=False)
        self.output_proj = nn.Conv1d(width, config.codebook_dim, 1, bias=False)
        self.vq = _Residual(count, config.codebook_size, width)


class SplitDequantizer(Derived):
    """Codes [B, n, Q] int64 -> vectors [B, D, n]."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__("table", "offsets")
        self.size = config.codebook_size
        self.num_codebooks = config.num_codebooks
        self.rvq_first = _Group(NUM_SEMANTIC, config)
        self.rvq_rest = _Group(config.num_codebooks - NUM_SEMANTIC, config)

    def derive(self) -> None:
        """All codebooks in one table [Q * N, E], so that one gather reads a frame."""
        weight = self.rvq_first.output_proj.weight
        books = [module.rows() for module in self.modules() if isinstance(module, _Codebook)]
        self.table = torch.cat(books).to(weight.dtype)
        self.offsets = torch.arange(self.num_codebooks, device=weight.device) * self.size

    def forward(self, codes: Tensor) -> Tensor:
        self.check(codes)
        rows = F.embedding(codes + self.derived("offsets"), self.derived("table"))
        semantic, acoustic = rows[:, :, :NUM_SEMANTIC].sum(2), rows[:, :, NUM_SEMANTIC:].sum(2)
        first, rest = self.rvq_first.output_proj.weight, self.rvq_rest.output_proj.weight
        vectors = F.linear(semantic, first.squeeze(2)) + F.linear(acoustic, rest.squeeze(2))
        return vectors.transpose(1, 2)

    def check(self, codes: Tensor) -> None:
        """Raise ValueError for codes of another shape, or past the end of their book, where they would read the next.

        On a device the second check would wait; callers own it.
        """
        if codes.dim() != 3 or codes.shape[2] != self.num_codebooks:
            raise ValueError(f"codes must be [rows, frames, {self.num_codebooks}], got {list(codes.shape)}")
        if codes.device.type == "cpu" and codes.numel():
            low, high = (int(v) for v in codes.aminmax())
            if low < 0 or high >= self.size:
                raise ValueError(f"codes must lie in [0, {self.size}), got {low} to {high}")
