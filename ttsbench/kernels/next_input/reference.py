"""next = sum over codebooks of table[code + offset of the codebook] + the text row that joins this frame.

Text rows wait in `inputs` at the position that they join; where the text has run out, the pad row of the slot joins.
The report of a row is its Q codes, its flags, and its slot: all that the codec and, one step later, the host need.

Shapes: R rows, Q codebooks, D width, S slots, P input positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

ENDED = 1
"""End of speech was drawn: the row holds no frame."""
LAST = 2
"""The frame is the last that its limit allows."""
SOUND = 4
"""All logits of the row were finite."""


@dataclass(frozen=True)
class FrameRows:
    """The rows of a step that yield a frame."""

    slots: Tensor
    """int64 [R]"""
    frames: Tensor
    """int64 [R], the number of the frame."""
    inputs: Tensor
    """int64 [R], where in `inputs` the next talker input goes."""
    has_text: Tensor
    """bool [R]: a text row waits there."""
    pads: Tensor
    """[S, D]"""
    limits: Tensor
    """int64 [S], frames a slot's request may have."""
    eos: int


def next_input(
    codes: Tensor, sound: Tensor, table: Tensor, offsets: Tensor, rows: FrameRows, inputs: Tensor, report: Tensor
) -> None:
    """From `codes` [R, Q] and `sound` [R] (finite logits) to `inputs` [P, D] and `report` [R, Q + 2], both int64."""
    text = torch.where(rows.has_text[:, None], inputs[rows.inputs], rows.pads[rows.slots])
    inputs[rows.inputs] = F.embedding(codes + offsets, table).sum(1) + text
    flags = ENDED * (codes[:, 0] == rows.eos) + LAST * (rows.frames + 1 >= rows.limits[rows.slots]) + SOUND * sound
    books = codes.shape[1]
    report[:, :books] = codes
    report[:, books] = flags
    report[:, books + 1] = rows.slots
