"""How the talker runs a decode step: as one launch where `decoder_pass` supports it, for few rows.

Passes of talker and code predictor belong to the parts of a step that run on the main stream, one after the other: a
device holds only one pass at a time. Shapes: R rows, D talker width, V talker vocabulary.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from ttsbench.engine.kv_cache import PagedCache
from ttsbench.kernels.attention import KVRows
from ttsbench.kernels.decoder_pass import MAX_ROWS, DecoderPass, Shape, unsupported
from ttsbench.models.qwen3_tts.packed import PackedTalker

log = logging.getLogger(__name__)


class TalkerPass:
    """Decode rows to hidden states and logits of codebook 0, for up to `max_rows` rows.

    Both are overwritten by the next step's.
    """

    def __init__(self, packed: PackedTalker, cache: PagedCache, made: DecoderPass, max_rows: int) -> None:
        self.packed = packed
        self.cache = cache
        self.made = made
        self.max_rows = max_rows
        width, vocabulary = packed.talker.config.hidden_size, len(packed.head)
        self.hidden = torch.empty((max_rows, width), device=packed.device, dtype=packed.dtype)
        self.logits = torch.empty((max_rows, vocabulary), device=packed.device, dtype=packed.dtype)

    def run(self, rows: KVRows) -> tuple[Tensor, Tensor]:
        """Hidden states [R, D] and logits [R, V] of one row a slot; padding rows are rows like others."""
        x = self.cache.inputs.index_select(0, rows.kv_slots)
        hidden, logits = self.hidden[: len(x)], self.logits[: len(x)]
        self.made.run(x, self.packed.head, rows, logits, hidden)
        return hidden, logits


def talker_pass(packed: PackedTalker, cache: PagedCache, max_rows: int, reserved: int) -> TalkerPass | None:
    """For up to `max_rows` rows or `MAX_ROWS`; None where every step runs layer by layer.

    It leaves `reserved` multiprocessors to what runs beside it.
    """
    rows = min(MAX_ROWS, max_rows)
    shape = Shape.of(packed.talker.stack, len(packed.head))
    if reason := unsupported(shape, rows, cache.block_size, packed.dtype, packed.device, reserved):
        log.info("the talker runs layer by layer: %s", reason)
        return None
    made = DecoderPass(packed.talker.stack, cache.kv, len(packed.head), reserved=reserved)
    return TalkerPass(packed, cache, made, rows)
