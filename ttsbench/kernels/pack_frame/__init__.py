"""What the host receives of a frame, one row of 32-bit words a stream: samples, codes, flags."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.pack_frame.reference import FINITE_PCM
from ttsbench.kernels.pack_frame.reference import pack_frame as reference

__all__ = ["FINITE_PCM", "pack_frame"]


def pack_frame(pcm: Tensor, report: Tensor, out: Tensor) -> None:
    """Write `pcm` [R, hop] and the codes and flags of `report` into `out`: see `reference.py`."""
    if pcm.is_cuda:
        from ttsbench.kernels.pack_frame.triton import pack_frame as kernel

        return kernel(pcm, report, out)
    return reference(pcm, report, out)
