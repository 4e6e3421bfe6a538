"""out = samples, then codes and flags as the bits of int32; flags are the report's, and whether all samples are finite.

Shapes: R rows, Q codebooks.
"""

from __future__ import annotations

import torch
from torch import Tensor

FINITE_PCM = 8
"""Flag beside those of `next_input`: all samples of the row are finite."""


def pack_frame(pcm: Tensor, report: Tensor, out: Tensor) -> None:
    """From `pcm` [R, hop] and `report` [R, Q + 2] (int64: codes, flags, slot) to `out` [R, hop + Q + 1], float32."""
    hop, books = pcm.shape[1], report.shape[1] - 2
    out[:, :hop] = pcm
    words = out.view(torch.int32)[:, hop:]
    words[:, :books] = report[:, :books]
    words[:, books] = report[:, books] + FINITE_PCM * pcm.isfinite().all(dim=1)
