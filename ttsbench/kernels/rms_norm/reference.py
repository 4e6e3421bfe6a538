"""total = x + residual; normed = total / sqrt(mean(total^2) + eps) * weight (RMSNorm, Zhang and Sennrich 2019).

The mean is taken in float32 (float64 stays float64) and the normalised row returns to the input's dtype before the
weight, as in the published Qwen3 code.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def add_rms_norm(x: Tensor, residual: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(normed, total), both [N, D] in the dtype of `x`."""
    total = x if residual is None else x + residual
    wide = total.to(torch.promote_types(total.dtype, torch.float32))
    return F.rms_norm(wide, wide.shape[-1:], eps=eps).to(total.dtype) * weight, total
