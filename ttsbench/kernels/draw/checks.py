"""What the kernels believe of their arguments: dtypes and unit strides; only rows of logits, codes and embeddings may
be apart.

Shapes: B rows, S slots, Q codebooks, V codes, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsbench.kernels.draw.types import Drawn, DrawSettings, FirstCodeRules, RowNorm, Rows

LARGEST_VOCABULARY = 8192
"""A row must fit into one program's registers, and a count into 16 bits."""


def check_rows(logits: Tensor, rows: Rows, settings: DrawSettings, drawn: Drawn) -> None:
    """Logits [B, V] and all that comes one a row or one a slot."""
    B, V = logits.shape
    assert V <= LARGEST_VOCABULARY
    assert logits.dtype in (torch.float32, torch.bfloat16)
    assert logits.stride(1) == drawn.codes.stride(1) == 1
    assert rows.slots.shape == rows.frames.shape == drawn.finite.shape == (B,)
    assert len(drawn.codes) == B
    _check_dtypes((drawn.codes, rows.slots, rows.frames, rows.seeds), torch.int64)
    _check_dtypes((settings.temperature, settings.top_p), torch.float32)
    _check_dtypes((settings.sample, drawn.finite), torch.bool)
    _check_dtypes((settings.top_k,), torch.int32)
    one_value_each = (*vars(settings).values(), rows.slots, rows.frames, rows.seeds, drawn.finite)
    assert all(column.is_contiguous() for column in one_value_each)


def check_rules(V: int, rules: FirstCodeRules) -> None:
    """What codebook 0 knows beside that."""
    assert rules.seen.shape[1] == V
    assert rules.seen.stride(1) == 1
    assert rules.penalty.is_contiguous()
    assert rules.min_frames.is_contiguous()
    _check_dtypes((rules.seen,), torch.bool)
    _check_dtypes((rules.penalty,), torch.float32)
    _check_dtypes((rules.min_frames,), torch.int32)


def check_table(B: int, V: int, table: Tensor, out: Tensor) -> None:
    """Embeddings [at least V, D], and where B of them go."""
    assert table.dtype is out.dtype
    assert table.stride(1) == out.stride(1) == 1
    assert len(table) >= V
    assert out.shape == (B, table.shape[1])


def check_norm(table: Tensor, out: Tensor, norm: RowNorm) -> None:
    """The norm of what is copied from `table` to `out`."""
    assert norm.rows.shape == out.shape
    assert norm.weight.shape == (out.shape[1],)
    assert norm.squares.shape == (len(out),)
    assert len(norm.squares_of) == len(table)
    assert norm.rows.is_contiguous()
    assert norm.weight.is_contiguous()
    assert norm.squares.is_contiguous()
    assert norm.squares_of.is_contiguous()
    _check_dtypes((norm.rows, norm.weight), table.dtype)
    _check_dtypes((norm.squares, norm.squares_of), torch.float32)


def _check_dtypes(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> None:
    assert all(tensor.dtype is dtype for tensor in tensors), (dtype, [tensor.dtype for tensor in tensors])
