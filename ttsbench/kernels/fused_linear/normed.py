"""Rows between a residual sum and the product that takes their norm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Normed:
    """Rows [N, K] after an RMSNorm, or one step before its end.

    With `squares` the rows are only multiplied by the norm's weight: what is left, dividing by the root mean square, is
    one number per row, and the product that takes the rows applies it to its sums. Then no program has to see a whole
    row before it can begin.
    """

    rows: Tensor
    squares: Tensor | None = None
    """float32 [P, N]: the sum of squares of each row before the weight, in P parts."""
    eps: float = 0.0

    def __len__(self) -> int:
        return len(self.rows)

    def every(self, start: int, step: int) -> Normed:
        """Rows `start`, `start + step` and so on, as views."""
        squares = None if self.squares is None else self.squares[:, start::step]
        return Normed(self.rows[start::step], squares, self.eps)

    def finished(self) -> Tensor:
        """The normed rows [N, K] themselves."""
        if self.squares is None:
            return self.rows
        scale = torch.rsqrt(self.squares.sum(0) / self.rows.shape[1] + self.eps)
        return (self.rows * scale[:, None]).to(self.rows.dtype)
