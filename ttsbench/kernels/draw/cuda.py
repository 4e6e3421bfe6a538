"""Launches `draw.cu`: one compiled kernel for each size of vocabulary, as `triton.py` does elsewhere.

The kernel counts ranks where Triton can only search, which is half of the time of a draw; docs/measurements.md.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from ttsbench.kernels.cuda_source import Compile, compile_for_device
from ttsbench.kernels.draw.checks import check_norm, check_rows, check_rules, check_table
from ttsbench.kernels.draw.types import Drawn, DrawSettings, FirstCodeRules, RowNorm, Rows

SOURCE = Path(__file__).with_name("draw.cu")
THREADS = 128
"""Of a row, as the source has it."""


POINTERS = (
    "logits", "slots", "frames", "seeds", "sample", "temperature", "top_k", "top_p", "penalty", "min_frames", "seen",
    "codes", "finite", "table", "out", "norm_weight", "norm_rows", "squares_of", "squares",
)  # fmt: skip
STRIDES = ("logits", "seen", "codes", "table", "out")
INTEGERS = ("book", "vocabulary", "eos", "first_control_id", "out_bytes")


class Draw(ctypes.Structure):
    """`struct Draw` of the source."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in POINTERS),
        *((f"{name}_stride", ctypes.c_longlong) for name in STRIDES),
        *((name, ctypes.c_int) for name in INTEGERS),
    )


def draw_first_code(
    logits: Tensor,
    rows: Rows,
    settings: DrawSettings,
    rules: FirstCodeRules,
    drawn: Drawn,
    table: Tensor,
    out: Tensor,
    compile_kernel: Compile = compile_for_device,
) -> None:
    """See `ttsbench.kernels.draw`."""
    _launch(0, logits, rows, settings, rules, drawn, table, out, None, compile_kernel)


def draw_code(
    book: int,
    logits: Tensor,
    rows: Rows,
    settings: DrawSettings,
    drawn: Drawn,
    table: Tensor | None,
    out: Tensor | None,
    norm: RowNorm | None = None,
    compile_kernel: Compile = compile_for_device,
) -> None:
    """See `ttsbench.kernels.draw`."""
    _launch(book, logits, rows, settings, None, drawn, table, out, norm, compile_kernel)


def _launch(
    book: int,
    logits: Tensor,
    rows: Rows,
    settings: DrawSettings,
    rules: FirstCodeRules | None,
    drawn: Drawn,
    table: Tensor | None,
    out: Tensor | None,
    norm: RowNorm | None,
    compile_kernel: Compile,
) -> None:
    B, V = logits.shape
    check_rows(logits, rows, settings, drawn)
    if rules is not None:
        check_rules(V, rules)
    if table is not None and out is not None:
        check_table(B, V, table, out)
        if norm is not None:
            check_norm(table, out, norm)
    pointers = {
        "logits": logits, "slots": rows.slots, "frames": rows.frames, "seeds": rows.seeds, **vars(settings),
        "codes": drawn.codes, "finite": drawn.finite, "table": table, "out": out,
    }  # fmt: skip
    strides = {"logits": logits.stride(0), "codes": drawn.codes.stride(0)}
    integers = {"book": book, "vocabulary": V}
    if rules is not None:
        pointers |= {"penalty": rules.penalty, "min_frames": rules.min_frames, "seen": rules.seen}
        strides["seen"] = rules.seen.stride(0)
        integers |= {"eos": rules.eos, "first_control_id": rules.first_control_id}
    if table is not None and out is not None:
        strides |= {"table": _row_bytes(table), "out": _row_bytes(out)}
        integers["out_bytes"] = out.shape[1] * out.element_size()
    if norm is not None:
        assert norm.weight.dtype is logits.dtype, "a product of a norm is taken in the dtype of the logits"
        pointers |= {"norm_weight": norm.weight, "norm_rows": norm.rows}
        pointers |= {"squares_of": norm.squares_of, "squares": norm.squares}
    structure = Draw(
        **{name: tensor.data_ptr() for name, tensor in pointers.items() if tensor is not None},
        **{f"{name}_stride": stride for name, stride in strides.items()},
        **integers,
    )
    kernel = compile_kernel(SOURCE, _defines(logits, rules, table, out, norm), "draw", logits.device)
    kernel.launch((B,), (THREADS,), (structure,), programmatic=True)


def _defines(
    logits: Tensor, rules: FirstCodeRules | None, table: Tensor | None, out: Tensor | None, norm: RowNorm | None
) -> dict[str, int | str]:
    V = logits.shape[1]
    rows = [logits] if rules is None else [logits, rules.seen]
    vector = 8 if V % 8 == 0 and all(_aligned(each, 8 * each.element_size()) for each in rows) else 1
    defines: dict[str, int | str] = {"HELD": -(-V // (THREADS * vector)) * vector, "VECTOR": vector, "CHUNK": 16}
    if logits.dtype is torch.float32:
        defines["FLOAT32"] = 1
    if rules is not None:
        defines["FIRST"] = 1
    if table is not None and out is not None:
        rows = [table, out]
        if norm is not None:
            rows += [norm.rows, norm.weight[None]]
            defines["NORM"] = 1
        whole = out.shape[1] * out.element_size() % 16 == 0 and all(_aligned(each, 16) for each in rows)
        defines["CHUNK"] = 16 if whole else out.element_size()
    return defines


def _aligned(rows: Tensor, size: int) -> bool:
    """Whether each row begins at a multiple of `size` bytes, or of 16 where that is less."""
    size = min(size, 16)
    return rows.data_ptr() % size == 0 and _row_bytes(rows) % size == 0


def _row_bytes(rows: Tensor) -> int:
    return rows.stride(0) * rows.element_size()
