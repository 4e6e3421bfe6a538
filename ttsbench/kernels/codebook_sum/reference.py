"""out[b] = sum over q of table[q * N + codes[b, q]]: a frame's vector from codebooks that are already projected."""

from __future__ import annotations

import torch
from torch import Tensor


def codebook_sum(codes: Tensor, table: Tensor, out: Tensor) -> None:
    """Writes the sums of `table` [Q * N, D] for `codes` [B, Q] int64 to `out` [B, D], whose dtype may be narrower."""
    books = codes.shape[1]
    first = torch.arange(books, device=codes.device) * (table.shape[0] // books)
    out.copy_(table[codes + first].sum(1))
