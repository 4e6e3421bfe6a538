"""One frame for every row that yields one: codebook 0, the other codebooks, the next talker input, the report.

Everything is read from and written to tensors at fixed addresses and nothing depends on their values, so the whole can
be captured in a graph. A row whose speech ends, or whose limit is reached, says so in its report; it is for the host to
stop asking. Shapes: R rows, D talker width, D' predictor width, Q codebooks.

The code predictor has Q positions a frame: position 0 is the talker's hidden state, position j the code of codebook
j - 1, and from position 1 on each gives the logits of codebook j. Positions 0 and 1 go through its layers together.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.engine.attention import FrameCache
from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.slot_state import SlotState
from ttsbench.kernels.draw import Drawn, RowNorm, Rows, draw_code, draw_first_code, prepared
from ttsbench.kernels.fused_linear import Normed, is_fused, linear
from ttsbench.kernels.next_input import FrameRows, next_input
from ttsbench.models.qwen3_tts.packed import PackedTalker


class FrameStep:
    """Turns hidden states into reports, for up to `max_rows` rows at once."""

    def __init__(self, packed: PackedTalker, state: SlotState, cache: PagedCache, max_rows: int) -> None:
        self.packed = packed
        self.state = state
        self.inputs = cache.inputs
        device, books = packed.device, packed.num_codebooks
        self.positions = FrameCache(packed.predictor.config, max_rows, books, device, packed.dtype)
        self.codes = torch.zeros((max_rows, books), dtype=torch.int64, device=device)
        self.sound = torch.ones(max_rows, dtype=torch.bool, device=device)
        self.report = torch.zeros((max_rows, books + 2), dtype=torch.int64, device=device)
        """Codes, flags and slot of each row of the newest step: see `next_input`."""

    def run(self, hidden: Tensor | Normed) -> None:
        """One frame from `hidden` [R, D], the rows in the order of the control block's `frame_slots`."""
        count = len(hidden)
        control = self.state.control.device
        rows = Rows(control["frame_slots"][:count], control["frames"][:count], self.state.seeds)
        drawn = Drawn(self.codes[:count], self.sound[:count])
        normed = hidden if isinstance(hidden, Normed) else Normed(hidden)
        self._draw(normed, prepared(rows, self.codes.shape[1]), drawn)
        frames = FrameRows(
            slots=rows.slots,
            frames=rows.frames,
            inputs=control["next_inputs"][:count],
            has_text=control["has_text"][:count],
            pads=self.state.pads,
            limits=self.state.limits,
            eos=self.state.rules.eos,
        )
        packed = self.packed
        next_input(
            drawn.codes, drawn.finite, packed.frame_table, packed.frame_offsets, frames, self.inputs,
            self.report[:count],
        )  # fmt: skip

    def _draw(self, hidden: Normed, rows: Rows, drawn: Drawn) -> None:
        """Codes of all codebooks."""
        packed, state, count = self.packed, self.state, len(hidden)
        predictor = packed.predictor
        pairs = hidden.rows.new_empty((count, 2, predictor.config.hidden_size))
        packed.project(hidden, pairs[:, 0])
        logits = linear(hidden, packed.head)
        draw_first_code(logits, rows, state.talker, state.rules, drawn, packed.code_rows[0], pairs[:, 1])
        out = predictor.run(pairs.flatten(0, 1), self.positions.attend_first_two(count)).every(1, 2)
        x, normed = torch.empty_like(pairs[:, 1]), self._first_norm(count)
        last = len(packed.lm_heads)
        for book, head in enumerate(packed.lm_heads, start=1):
            logits = linear(out, head)
            if book == last:
                draw_code(book, logits, rows, state.predictor, drawn, None, None)
                break
            norm = self._row_norm(book, normed)
            draw_code(book, logits, rows, state.predictor, drawn, packed.code_rows[book], x, norm)
            out = predictor.run(x, self.positions.attend(count, book + 1), normed)

    def _first_norm(self, rows: int) -> Normed | None:
        """Memory for what the code predictor's first layer makes of a code's row, if draws are to write it."""
        weight = self.packed.predictor.layers[0].qkv
        if not is_fused(rows, weight):
            return None
        squares = torch.empty((1, rows), device=weight.device)
        return Normed(weight.new_empty(rows, weight.shape[1]), squares, self.packed.predictor.config.rms_norm_eps)

    def _row_norm(self, book: int, normed: Normed | None) -> RowNorm | None:
        """That memory, for the rows of codebook `book`."""
        if normed is None or normed.squares is None:
            return None
        weight = self.packed.predictor.layers[0].input_norm
        return RowNorm(weight, self.packed.code_squares[book], normed.rows, normed.squares[0])
