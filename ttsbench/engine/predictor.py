"""How the code predictor runs within a frame: operation by operation, or as one launch a position.

Position 0 of a frame is the talker's hidden state, position j is the code of codebook j - 1; from position 1 on, each
gives the logits of codebook j. Shapes: R rows, D predictor width, Q codebooks, V codes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from ttsbench.engine.attention import FrameCache
from ttsbench.kernels.decoder_pass import MAX_ROWS, DecoderPass, Shape, unsupported
from ttsbench.kernels.fused_linear import Normed, is_fused, linear
from ttsbench.models.qwen3_tts.packed import PackedTalker

log = logging.getLogger(__name__)


class Predictor(Protocol):
    """The positions of one frame, in order; a frame begins with `first`."""

    max_rows: int

    def inputs(self, rows: int) -> Tensor:
        """Memory for positions 0 and 1 of each row, [R, 2, D]."""
        ...

    def first(self, x: Tensor) -> Tensor:
        """Logits [R, V] of codebook 1 from the rows in `inputs`."""
        ...

    def normed(self, rows: int) -> Normed | None:
        """Memory for the first norm of the input rows of `next`, if that is to be there with them."""
        ...

    def next(self, book: int, x: Tensor, normed: Normed | None) -> Tensor:
        """Logits [R, V] of codebook `book` >= 2 from the input rows `x` [R, D] of its position."""
        ...


def predictors(packed: PackedTalker, cache: FrameCache, max_rows: int, reserved: int = 0) -> Sequence[Predictor]:
    """All that can run here, the fastest first, up to the rows that each is for; the last takes `max_rows`.

    Passes leave `reserved` multiprocessors to what runs beside them.
    """
    layered = LayeredPredictor(packed, cache, max_rows)
    rows = min(MAX_ROWS, max_rows)
    shape = Shape.of(packed.predictor.stack, packed.codebook_size)
    block_size = len(cache.positions)
    if reason := unsupported(shape, rows, block_size, packed.dtype, packed.device, reserved):
        log.info("the code predictor runs layer by layer: %s", reason)
        return [layered]
    made = DecoderPass(packed.predictor.stack, cache.kv.flatten(2, 3), packed.codebook_size, reserved=reserved)
    return [PassPredictor(packed, cache, made, rows), layered]


class LayeredPredictor:
    """Runs anywhere. Positions 0 and 1 go through the layers together, the two of a row side by side."""

    def __init__(self, packed: PackedTalker, cache: FrameCache, max_rows: int) -> None:
        self.packed = packed
        self.cache = cache
        self.max_rows = max_rows

    def inputs(self, rows: int) -> Tensor:
        width = self.packed.predictor.config.hidden_size
        return torch.empty((rows, 2, width), device=self.packed.device, dtype=self.packed.dtype)

    def first(self, x: Tensor) -> Tensor:
        out = self.packed.predictor.run(x.flatten(0, 1), self.cache.attend_first_two(len(x)))
        return linear(out.every(1, 2), self.packed.lm_heads[0])

    def normed(self, rows: int) -> Normed | None:
        stack = self.packed.predictor
        weight = stack.layers[0].qkv
        if not is_fused(rows, weight):
            return None
        squares = torch.empty((1, rows), device=weight.device)
        return Normed(weight.new_empty(rows, weight.shape[1]), squares, stack.config.rms_norm_eps)

    def next(self, book: int, x: Tensor, normed: Normed | None) -> Tensor:
        out = self.packed.predictor.run(x, self.cache.attend(len(x), book), normed)
        return linear(out, self.packed.lm_heads[book - 1])


class PassPredictor:
    """One launch a position, on the GPUs and for the models that `decoder_pass` supports.

    The logits are overwritten by the next position's.
    """

    def __init__(self, packed: PackedTalker, cache: FrameCache, made: DecoderPass, max_rows: int) -> None:
        self.packed = packed
        self.cache = cache
        self.made = made
        self.max_rows = max_rows
        self.logits = torch.empty((max_rows, packed.codebook_size), device=packed.device, dtype=packed.dtype)

    def inputs(self, rows: int) -> Tensor:
        """The rows of a position side by side: each position is a pass of its own."""
        width = self.packed.predictor.config.hidden_size
        memory = torch.empty((2, rows, width), device=self.packed.device, dtype=self.packed.dtype)
        return memory.transpose(0, 1)

    def first(self, x: Tensor) -> Tensor:
        self._run(0, x[:, 0], 1)  # for its keys and values
        return self._run(1, x[:, 1], 1)

    def normed(self, rows: int) -> None:
        return None

    def next(self, book: int, x: Tensor, normed: Normed | None) -> Tensor:
        return self._run(book, x, book)

    def _run(self, position: int, x: Tensor, book: int) -> Tensor:
        logits = self.logits[: len(x)]
        self.made.run(x, self.packed.lm_heads[book - 1], self.cache.rows(len(x), position), logits)
        return logits
