"""Draw one code per row from its logits and fetch the code's embedding: sampling without the host.

Every setting is a tensor with one value per slot, every random number a function of (seed, frame, codebook), so a draw
inside a captured graph serves whatever requests hold the slots. `reference` says what a draw is; on a GPU one kernel
does it.

Shapes: B rows, S slots, Q codebooks, V codes, D width.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import torch
from torch import Tensor

from ttsbench.kernels.cuda_source import supported
from ttsbench.kernels.draw import reference
from ttsbench.kernels.draw.philox import frame_uniforms
from ttsbench.kernels.draw.types import Drawn, DrawSettings, FirstCodeRules, FrameMemo, RowNorm, Rows

__all__ = ["DrawSettings", "Drawn", "FirstCodeRules", "RowNorm", "Rows", "draw_code", "draw_first_code", "prepared"]


def prepared(rows: Rows, num_codebooks: int) -> Rows:
    """`rows` for the draws of one frame: on a CPU with what they share worked out once, on a GPU as they are.

    Good for as long as slots, frames, seeds and settings stay what they are.
    """
    if rows.slots.is_cuda:
        return rows
    return replace(rows, memo=FrameMemo(frame_uniforms(rows.seeds[rows.slots], rows.frames, num_codebooks)))


def draw_first_code(
    logits: Tensor,
    rows: Rows,
    settings: DrawSettings,
    rules: FirstCodeRules,
    drawn: Drawn,
    table: Tensor,
    out: Tensor,
) -> None:
    """Draw codebook 0 from `logits` [B, V] (float32 or bfloat16) into `drawn`, mark it seen, copy `table[code]` to
    `out`.

    `table` is [at least V, D] and `out` [B, D] with any row stride; the row of end of speech is copied like any other.
    """
    if logits.is_cuda:
        _kernel(logits.device).draw_first_code(logits, rows, settings, rules, drawn, table, out)
    else:
        reference.draw_first_code(logits, rows, settings, rules, drawn, table, out)


def draw_code(
    book: int,
    logits: Tensor,
    rows: Rows,
    settings: DrawSettings,
    drawn: Drawn,
    table: Tensor | None,
    out: Tensor | None,
    norm: RowNorm | None = None,
) -> None:
    """Draw codebook `book` >= 1 from `logits` [B, V] (float32 or bfloat16) into `drawn`, copy `table[code]` to `out`.

    `table` [at least V, D] and `out` [B, D] may both be None, for a code that is not fed back. With a `norm` of what is
    copied its rows and squares are written too.
    """
    if logits.is_cuda:
        _kernel(logits.device).draw_code(book, logits, rows, settings, drawn, table, out, norm)
    else:
        reference.draw_code(book, logits, rows, settings, drawn, table, out, norm)


def _kernel(device: torch.device) -> ModuleType:
    from ttsbench.kernels.draw import cuda, triton

    return cuda if supported(device) else triton
