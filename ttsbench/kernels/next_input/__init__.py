"""What follows from the codes of a frame: the talker's next input, and the frame's report to codec and host."""

from __future__ import annotations

from torch import Tensor

from ttsbench.kernels.next_input.reference import ENDED, LAST, SOUND, FrameRows
from ttsbench.kernels.next_input.reference import next_input as reference

__all__ = ["ENDED", "LAST", "SOUND", "FrameRows", "next_input"]


def next_input(
    codes: Tensor, sound: Tensor, table: Tensor, offsets: Tensor, rows: FrameRows, inputs: Tensor, report: Tensor
) -> None:
    """Write the next talker input of each row into `inputs` and its report into `report`: see `reference.py`."""
    if codes.is_cuda:
        from ttsbench.kernels.next_input.triton import next_input as kernel

        return kernel(codes, sound, table, offsets, rows, inputs, report)
    return reference(codes, sound, table, offsets, rows, inputs, report)
