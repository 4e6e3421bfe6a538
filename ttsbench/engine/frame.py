"""One frame for every row that yields one: codebook 0, the other codebooks, the next talker input, the report.

Everything is read from and written to tensors at fixed addresses and nothing depends on their values, so the whole can
be captured in a graph. A row whose speech ends, or whose limit is reached, says so in its report; it is for the host to
stop asking. Shapes: R rows, D talker width, D' predictor width, Q codebooks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.engine.attention import FrameCache
from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.predictor import Predictor, predictors
from ttsbench.engine.slot_state import SlotState
from ttsbench.kernels.draw import Drawn, RowNorm, Rows, draw_code, draw_first_code, prepared
from ttsbench.kernels.fused_linear import Normed, linear
from ttsbench.kernels.next_input import FrameRows, next_input
from ttsbench.models.qwen3_tts.packed import PackedTalker


class FrameStep:
    """Turns hidden states into reports, for up to `max_rows` rows at once."""

    def __init__(
        self, packed: PackedTalker, state: SlotState, cache: PagedCache, max_rows: int, reserved: int = 0
    ) -> None:
        """The code predictor leaves `reserved` multiprocessors to what runs beside it, where it can."""
        self.packed = packed
        self.state = state
        self.inputs = cache.inputs
        device, books = packed.device, packed.num_codebooks
        self.positions = FrameCache(packed.predictor.config, max_rows, books, device, packed.dtype)
        self.predictors = predictors(packed, self.positions, max_rows, reserved)
        self.codes = torch.zeros((max_rows, books), dtype=torch.int64, device=device)
        self.sound = torch.ones(max_rows, dtype=torch.bool, device=device)
        self.report = torch.zeros((max_rows, books + 2), dtype=torch.int64, device=device)
        """Codes, flags and slot of each row of the newest step: see `next_input`."""

    def run(self, hidden: Tensor | Normed, logits: Tensor | None = None) -> None:
        """One frame from `hidden` [R, D], the rows in the order of the control block's `frame_slots`.

        `logits` of codebook 0, if whatever gave the hidden states gave these too.
        """
        count = len(hidden)
        control = self.state.control.device
        rows = Rows(control["frame_slots"][:count], control["frames"][:count], self.state.seeds)
        drawn = Drawn(self.codes[:count], self.sound[:count])
        normed = hidden if isinstance(hidden, Normed) else Normed(hidden)
        self._draw(normed, logits, prepared(rows, self.codes.shape[1]), drawn)
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

    def predictor(self, rows: int) -> Predictor:
        """The one that runs frames of so many rows."""
        return next(one for one in self.predictors if rows <= one.max_rows)

    def _draw(self, hidden: Normed, logits: Tensor | None, rows: Rows, drawn: Drawn) -> None:
        """Codes of all codebooks."""
        packed, state, count = self.packed, self.state, len(hidden)
        predictor = self.predictor(count)
        pairs = predictor.inputs(count)
        packed.project(hidden, pairs[:, 0])
        if logits is None:
            logits = linear(hidden, packed.head)
        draw_first_code(logits, rows, state.talker, state.rules, drawn, packed.code_rows[0], pairs[:, 1])
        x, normed = torch.empty_like(pairs[:, 1]), predictor.normed(count)
        last = len(packed.lm_heads)
        for book in range(1, last + 1):
            logits = predictor.first(pairs) if book == 1 else predictor.next(book, x, normed)
            if book == last:
                draw_code(book, logits, rows, state.predictor, drawn, None, None)
            else:
                norm = self._row_norm(book, normed)
                draw_code(book, logits, rows, state.predictor, drawn, packed.code_rows[book], x, norm)

    def _row_norm(self, book: int, normed: Normed | None) -> RowNorm | None:
        """What the first layer makes of the rows of codebook `book`, written into `normed`."""
        if normed is None or normed.squares is None:
            return None
        weight = self.packed.predictor.layers[0].input_norm
        return RowNorm(weight, self.packed.code_squares[book], normed.rows, normed.squares[0])
