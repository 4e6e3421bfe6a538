"""What came before the frames at hand: the one thing in which whole and streaming decode differ.

Every layer of the codec decoder is causal, so its output for new frames depends on those frames and on a bounded piece
of the past: the last inputs of each convolution, the last keys and values of each attention layer. A layer asks a
`Past` for that piece. Whole decode answers "nothing came before" (`NoPast`, here); streaming decode keeps it per slot
(`codec_stream.py`). The network itself is written once.

Shapes: B rows, n positions of this call, C channels, H heads, K key-value heads, E head width.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Past(Protocol):
    """The memory of the causal layers during one call."""

    @property
    def positions(self) -> Tensor:
        """Absolute positions [B or 1, n] of the frames of this call, int64."""

    def extend(self, site: int, x: Tensor, tail: int) -> Tensor:
        """`x` [B, C, n] of convolution `site` with the `tail` inputs before it in front: [B, C, tail + n]."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention output [B, n, H, E] of rotated `q` [B, n, H, E] over the past and `k`, `v` [B, n, K, E]."""


class NoPast:
    """A whole utterance: zeros before each convolution, causal attention within `window` positions (None: no limit)."""

    def __init__(self, n: int, window: int | None, device: torch.device, dtype: torch.dtype) -> None:
        self.positions = torch.arange(n, device=device).unsqueeze(0)
        self._mask = visibility(self.positions, self.positions, window, dtype)

    def extend(self, site: int, x: Tensor, tail: int) -> Tensor:
        return F.pad(x, (tail, 0))

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, self._mask)


def visibility(queries: Tensor, keys: Tensor, window: int | None, dtype: torch.dtype) -> Tensor:
    """Additive mask [B, 1, n, m]: 0 where the query at `queries` [B, n] sees the key at `keys` [B, m], else -inf.

    Keys at negative positions do not exist: they are never seen, whatever their rows hold.
    """
    q, k = queries.unsqueeze(2), keys.unsqueeze(1)
    seen = (k >= 0) & (k <= q)
    if window is not None:
        seen &= k > q - window
    return torch.zeros((), dtype=dtype, device=q.device).where(seen, -torch.inf).unsqueeze(1)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Dot-product attention [B, n, H, E] of `q` [B, n, H, E] over `k`, `v` [B, m, K, E] under `mask` [B, 1, n, m]."""
    grouped = q.shape[2] != k.shape[2]
    out = F.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask, enable_gqa=grouped
    )
    return out.transpose(1, 2)
