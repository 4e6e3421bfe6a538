"""out[b] = sum over q of table[q * N + codes[b, q]]: a frame's vector from codebooks that are already projected.

A code past the end of its book, as control ids are, stands for the last of the book.
"""

from __future__ import annotations

import torch
from torch import Tensor


def codebook_sum(codes: Tensor, table: Tensor, out: Tensor) -> None:
    """Writes the sums of `table` [Q * N, D] for `codes` [B, Q] int64 to `out` [B, D], whose dtype may be narrower."""
    books = codes.shape[1]
    size = table.shape[0] // books
    first = torch.arange(books, device=codes.device) * size
    out.copy_(table[codes.clamp(max=size - 1) + first].sum(1))
