"""A product whose left rows may still lack their norm's scale, with gate or residual sum where the sums are stored.

The scale of a row is one number, so it multiplies the sums rather than the terms, and the mainloop is a plain product
of what lies in memory. What the next norm needs of a row, its sum of squares, leaves with each tile of the residual
sum.

Up to 32 rows the weights are the tall side of the matrix unit's product. With SPLIT_K programs per tile each writes its
part of the sum; the last to come adds the parts in order, so the result does not depend on who that is. Rows and
columns past the end read the first ones and store nothing. While the kernel before still runs, a program's share of a
small weight is on its way to registers (`early_kernel`) or to the L2 cache (`fetch_weight`).

Shapes: N rows, K width of a row, M outputs, P parts of a row's sum of squares.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from ttsbench.kernels.fused_linear.normed import Normed
from ttsbench.kernels.fused_linear.tiles import SMALL_WEIGHT, EarlyTile, Share, Tile, choose
from ttsbench.kernels.invariant import is_fixed, planned
from ttsbench.kernels.overlap import fetch_spans, let_next_start, overlap, wait_for_previous

MOST_TILES = 4096
"""Of one split product."""

PLAIN: dict[str, Any] = {
    "bias_ptr": None, "residual_ptr": None, "norm_ptr": None, "total_ptr": None, "out_squares_ptr": None,
    "GATED": False, "HAS_BIAS": False, "HAS_RESIDUAL": False,
}  # fmt: skip
"""Arguments of a kernel whose sums are stored as they are."""


@triton.jit  # type: ignore[untyped-decorator]
def fetch_weight(weight_ptr, column, begin, count, width, CHUNKS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Terms `begin` to `begin + count` of each row `column` of the weight, in CHUNKS spans."""
    span = count // CHUNKS
    at = weight_ptr + column.to(tl.int64)[:, None] * width + (begin + tl.arange(0, CHUNKS) * span)[None, :]
    fetch_spans(at, span * (weight_ptr.dtype.element_ty.primitive_bitwidth // 8))


@triton.jit  # type: ignore[untyped-decorator]
def sum_parts(part_ptr, at, inside, size, SPLIT_K: tl.constexpr):  # type: ignore[no-untyped-def]
    """Past the L1 cache, which does not see what other multiprocessors have written."""
    sums = tl.load(part_ptr + at, mask=inside, other=0.0, cache_modifier=".cg")
    for part in tl.static_range(1, SPLIT_K):
        sums += tl.load(part_ptr + part * size + at, mask=inside, other=0.0, cache_modifier=".cg")
    return sums


@triton.jit  # type: ignore[untyped-decorator]
def row_squares(squares_ptr, squares_part, squares_row, row, rows, parts, PARTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The parts [PARTS, rows] of the rows' sums of squares. `row` counts on past the last row: then neighbours stand
    together in memory as far as the compiler can see.
    """
    part = tl.arange(0, PARTS)
    at = part[:, None] * squares_part + row[None, :] * squares_row
    return tl.load(squares_ptr + at, mask=(part < parts)[:, None] & (row < rows)[None, :], other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def of_columns(pointer, column, known, WANTED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Bias or norm weight of each column: read before the wait, or the end of the kernel waits for them."""
    values = 0.0
    if WANTED:
        values = tl.load(pointer + column, mask=known, other=0.0)
    return values


@triton.jit  # type: ignore[untyped-decorator]
def finish(  # type: ignore[no-untyped-def]
    sums, up, squares, residual, bias, norm, row, column, real, known, tile_n, rows, outputs, width, eps,
    out_ptr, out_stride, total_ptr, out_squares_ptr,
    SCALED: tl.constexpr, GATED: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
):  # fmt: skip
    """From the sums of rows `row` and columns `column` to what is stored; float32 until then."""
    inside = real[:, None] & known[None, :]
    if SCALED:
        scale = tl.rsqrt(tl.sum(squares, 0) / width + eps)[:, None]
        sums *= scale
    if GATED:
        if SCALED:
            up *= scale
        sums = sums / (1.0 + tl.exp(-sums)) * up
    if HAS_BIAS:
        sums += bias.to(tl.float32)[None, :]
    if HAS_RESIDUAL:
        total = (sums + residual.to(tl.float32)).to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + row.to(tl.int64)[:, None] * outputs + column[None, :], total, mask=inside)
        wide = tl.where(known[None, :], total.to(tl.float32), 0.0)
        tl.store(out_squares_ptr + tile_n * rows + row, tl.sum(wide * wide, 1), mask=real)
        sums = wide * norm.to(tl.float32)[None, :]
    out_at = out_ptr + row.to(tl.int64)[:, None] * out_stride + column[None, :]
    tl.store(out_at, sums.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["parts"])  # type: ignore[untyped-decorator]
def fused_linear_kernel(  # type: ignore[no-untyped-def]
    x, weight, x_ptr, weight_ptr, squares_ptr, bias_ptr, residual_ptr, norm_ptr, out_ptr, total_ptr, out_squares_ptr,
    part_ptr, ticket_ptr, x_stride, out_stride, squares_part, squares_row, rows, outputs, width, parts, eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr, PARTS: tl.constexpr,
    GATED: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, TALL: tl.constexpr, BLOCKS: tl.constexpr,
    EVEN_K: tl.constexpr, CHUNKS: tl.constexpr, PRECISION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(rows, BLOCK_M)
    tile, part = tl.program_id(0), tl.program_id(1)
    tile_n = tile // tiles_m
    first_row, first_column = tile % tiles_m * BLOCK_M, tile_n * BLOCK_N
    any_row = first_row + tl.arange(0, BLOCK_M)
    real = any_row < rows
    row = tl.where(real, any_row, 0)
    column = first_column + tl.arange(0, BLOCK_N)
    known = column < outputs
    read = tl.where(known, column, 0)
    steps = tl.cdiv(tl.cdiv(width, BLOCK_K), SPLIT_K)
    first, end = part * steps, tl.minimum((part + 1) * steps, tl.cdiv(width, BLOCK_K))
    if CHUNKS:
        fetch_weight(weight_ptr, read, first * BLOCK_K, (end - first) * BLOCK_K, width, CHUNKS)
        if GATED:
            fetch_weight(weight_ptr, outputs + read, first * BLOCK_K, (end - first) * BLOCK_K, width, CHUNKS)
    bias = of_columns(bias_ptr, column, known, HAS_BIAS)
    norm = of_columns(norm_ptr, column, known, HAS_RESIDUAL)
    wait_for_previous(OVERLAP)
    let_next_start(OVERLAP)

    squares = 0.0
    if PARTS:
        squares = row_squares(squares_ptr, squares_part, squares_row, any_row, rows, parts, PARTS)
    residual = 0.0
    inside = real[:, None] & known[None, :]
    at = row.to(tl.int64)[:, None] * outputs + column[None, :]
    if HAS_RESIDUAL:
        residual = tl.load(residual_ptr + at, mask=inside, other=0.0)

    x_rows = x_ptr + row.to(tl.int64)[:, None] * x_stride
    weight_rows = weight_ptr + read.to(tl.int64)[:, None] * width
    up_rows = weight_ptr + (outputs + read).to(tl.int64)[:, None] * width
    if TALL:
        sums = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
        up = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    else:
        sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(first, end):
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        if BLOCKS:
            left = x.load([first_row, step * BLOCK_K])
            right = weight.load([first_column, step * BLOCK_K])
        elif EVEN_K:
            left = tl.load(x_rows + k[None, :])
            right = tl.load(weight_rows + k[None, :])
        else:
            left = tl.load(x_rows + k[None, :], mask=(k < width)[None, :], other=0.0)
            right = tl.load(weight_rows + k[None, :], mask=(k < width)[None, :], other=0.0)
        if TALL:
            sums = tl.dot(right, tl.trans(left), sums, input_precision=PRECISION)
        else:
            sums = tl.dot(left, tl.trans(right), sums, input_precision=PRECISION)
        if GATED:
            if BLOCKS:
                other = weight.load([outputs + first_column, step * BLOCK_K])
            elif EVEN_K:
                other = tl.load(up_rows + k[None, :])
            else:
                other = tl.load(up_rows + k[None, :], mask=(k < width)[None, :], other=0.0)
            if TALL:
                up = tl.dot(other, tl.trans(left), up, input_precision=PRECISION)
            else:
                up = tl.dot(left, tl.trans(other), up, input_precision=PRECISION)
    if TALL:
        sums, up = tl.trans(sums), tl.trans(up)

    last = True
    if SPLIT_K > 1:
        size = tl.cast(rows, tl.int64) * outputs
        tl.store(part_ptr + part * size + at, sums, mask=inside)
        if GATED:
            tl.store(part_ptr + (SPLIT_K + part) * size + at, up, mask=inside)
        tl.debug_barrier()  # every thread's part is written before the ticket says so
        last = tl.atomic_add(ticket_ptr + tile, 1, sem="acq_rel") == SPLIT_K - 1
        if last:
            tl.store(ticket_ptr + tile, 0)
            tl.debug_barrier()
            sums = sum_parts(part_ptr, at, inside, size, SPLIT_K)
            if GATED:
                up = sum_parts(part_ptr + SPLIT_K * size, at, inside, size, SPLIT_K)
    if last:
        finish(
            sums, up, squares, residual, bias, norm, row, column, real, known, tile_n, rows, outputs, width, eps,
            out_ptr, out_stride, total_ptr, out_squares_ptr,
            PARTS > 0, GATED, HAS_BIAS, HAS_RESIDUAL,
        )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def hold(values, OVERLAP: tl.constexpr):  # type: ignore[no-untyped-def]
    """The same values, which the compiler keeps in registers up to here: else it moves what a product takes to shared
    memory where it is loaded, and waits there for one load after the other.
    """
    if OVERLAP:
        values = tl.inline_asm_elementwise(
            "mov.b32 $0, $1;", "=r,r", [values], dtype=values.dtype, is_pure=False, pack=2
        )
    return values


AT_ONCE_ROWS = 8
"""A step of 8 rows with the codec beside it: 2,983 us, and 3,119 with the next kernel's start after the wait."""


@triton.jit(do_not_specialize=["parts"])  # type: ignore[untyped-decorator]
def early_kernel(  # type: ignore[no-untyped-def]
    x_ptr, weight_ptr, squares_ptr, bias_ptr, residual_ptr, norm_ptr, out_ptr, total_ptr, out_squares_ptr,
    x_stride, out_stride, squares_part, squares_row, rows, outputs, width, parts, eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TERMS: tl.constexpr, SLICES: tl.constexpr, STEPS: tl.constexpr,
    PARTS: tl.constexpr, GATED: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    AHEAD: tl.constexpr, AT_ONCE: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """A few rows: each program has loaded its share of the weight before it waits for the rows that meet it.

    Each warp takes slices of the terms, so that few products are added up after one another. The width of a row is a
    multiple of what the slices take at once. With AT_ONCE the next kernel may start at once, which then fetches its
    weights even earlier: worth it up to 8 rows, where fetching is nearly all there is.
    """
    if AT_ONCE:
        let_next_start(OVERLAP)
    tiles_m = tl.cdiv(rows, BLOCK_M)
    tile = tl.program_id(0)
    tile_n = tile // tiles_m
    any_row = tile % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    real = any_row < rows
    row = tl.where(real, any_row, 0)
    column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    known = column < outputs
    read = tl.where(known, column, 0).to(tl.int64)
    span = SLICES * TERMS
    k = (tl.arange(0, SLICES) * TERMS)[:, None, None] + tl.arange(0, TERMS)[None, None, :]
    weight_at = weight_ptr + read[None, :, None] * width + k
    x_at = x_ptr + row.to(tl.int64)[None, :, None] * x_stride + k
    up_at = weight_at + tl.cast(outputs, tl.int64) * width
    weights, ups = (), ()
    for step in tl.static_range(STEPS):
        weights += (tl.load(weight_at + step * span),)  # type: ignore[assignment]
        if GATED:
            ups += (tl.load(up_at + step * span),)  # type: ignore[assignment]
    bias = of_columns(bias_ptr, column, known, HAS_BIAS)
    norm = of_columns(norm_ptr, column, known, HAS_RESIDUAL)
    tl.debug_barrier()  # all loads are under way before the first is waited for
    rights, others = (), ()
    for step in tl.static_range(STEPS):
        rights += (hold(weights[step], OVERLAP),)  # type: ignore[assignment]
        if GATED:
            others += (hold(ups[step], OVERLAP),)  # type: ignore[assignment]
    wait_for_previous(OVERLAP)
    if not AT_ONCE:
        let_next_start(OVERLAP)

    squares = 0.0
    if PARTS:
        squares = row_squares(squares_ptr, squares_part, squares_row, any_row, rows, parts, PARTS)
    residual = 0.0
    if HAS_RESIDUAL:
        at = row.to(tl.int64)[:, None] * outputs + column[None, :]
        residual = tl.load(residual_ptr + at, mask=real[:, None] & known[None, :], other=0.0)
    lefts = ()
    for step in tl.static_range(AHEAD):
        lefts += (tl.load(x_at + step * span),)  # type: ignore[assignment]
    tl.debug_barrier()
    sums = tl.zeros((SLICES, BLOCK_N, BLOCK_M), dtype=tl.float32)
    up = tl.zeros((SLICES, BLOCK_N, BLOCK_M), dtype=tl.float32)
    for step in tl.static_range(STEPS):
        left = tl.trans(hold(lefts[step], OVERLAP), (0, 2, 1))
        if step + AHEAD < STEPS:
            lefts += (tl.load(x_at + (step + AHEAD) * span),)  # type: ignore[assignment]
        sums = tl.dot(rights[step], left, sums)
        if GATED:
            up = tl.dot(others[step], left, up)
    sums = tl.trans(tl.sum(sums, 0))
    if GATED:
        up = tl.trans(tl.sum(up, 0))
    finish(
        sums, up, squares, residual, bias, norm, row, column, real, known, tile_n, rows, outputs, width, eps,
        out_ptr, out_stride, total_ptr, out_squares_ptr,
        PARTS > 0, GATED, HAS_BIAS, HAS_RESIDUAL,
    )  # fmt: skip


MATVEC_OUTPUTS, MATVEC_WARPS = 2, 4
"""Outputs and warps of a program of `matvec`: two outputs a program, measured on an H200 (docs/measurements.md)."""


@triton.jit(do_not_specialize=["parts", "squares_part"])  # type: ignore[untyped-decorator]
def matvec_kernel(  # type: ignore[no-untyped-def]
    x_ptr, weight_ptr, squares_ptr, bias_ptr, residual_ptr, norm_ptr, out_ptr, total_ptr, out_squares_ptr,
    outputs, width, parts, squares_part, eps, OUTPUTS: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
    GATED: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """One row: each program reads a few rows of the weight, whole, before it waits for the row that they meet."""
    let_next_start(OVERLAP)  # at once: such programs are small, and leave room for others
    tile = tl.program_id(0)
    column = tile * OUTPUTS + tl.arange(0, OUTPUTS)
    known = column < outputs
    k = tl.arange(0, BLOCK)
    inside = known[:, None] & (k < width)[None, :]
    weight = tl.load(weight_ptr + column.to(tl.int64)[:, None] * width + k[None, :], mask=inside, other=0.0)
    up = 0.0
    if GATED:
        up_at = weight_ptr + (outputs + column).to(tl.int64)[:, None] * width + k[None, :]
        up_weight = tl.load(up_at, mask=inside, other=0.0)
    bias = of_columns(bias_ptr, column, known, HAS_BIAS)
    norm = of_columns(norm_ptr, column, known, HAS_RESIDUAL)
    wait_for_previous(OVERLAP)
    x = tl.load(x_ptr + k, mask=k < width, other=0.0).to(tl.float32)[None, :]
    row = tl.arange(0, 1)
    squares = 0.0
    if PARTS:
        squares = row_squares(squares_ptr, squares_part, 1, row, 1, parts, PARTS)
    residual = 0.0
    if HAS_RESIDUAL:
        residual = tl.load(residual_ptr + column, mask=known, other=0.0)[None, :]
    sums = tl.sum(weight.to(tl.float32) * x, 1)[None, :]
    if GATED:
        up = tl.sum(up_weight.to(tl.float32) * x, 1)[None, :]
    finish(
        sums, up, squares, residual, bias, norm, row, column, row < 1, known, tile, 1, outputs, width, eps,
        out_ptr, 0, total_ptr, out_squares_ptr,
        PARTS > 0, GATED, HAS_BIAS, HAS_RESIDUAL,
    )  # fmt: skip


def linear(
    x: Normed, weight: Tensor, bias: Tensor | None = None, out: Tensor | None = None, tile: Share | None = None
) -> Tensor:
    """As `reference.linear`; `tile` overrides the table, here and below."""
    if out is None:
        out = torch.empty(len(x), len(weight), device=weight.device, dtype=weight.dtype)
    return _launch(x, weight, len(weight), out, tile, bias_ptr=bias, HAS_BIAS=bias is not None)


def gated_linear(x: Normed, weight: Tensor, tile: Share | None = None) -> Tensor:
    """As `reference.gated_linear`."""
    out = torch.empty(len(x), len(weight) // 2, device=weight.device, dtype=weight.dtype)
    return _launch(x, weight, len(weight) // 2, out, tile, GATED=True)


def residual_linear(
    x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float, tile: Share | None = None
) -> tuple[Normed, Tensor]:
    """As `reference.residual_linear`, the norm not finished."""
    rows, outputs = len(x), len(weight)
    assert residual.shape == (rows, outputs) and residual.is_contiguous() and residual.dtype == weight.dtype
    assert norm.shape == (outputs,) and norm.is_contiguous() and norm.dtype == weight.dtype
    columns = MATVEC_OUTPUTS if _one_row(rows, tile) else (tile or _chosen(rows, weight, gated=False)).columns
    out, total = torch.empty_like(residual), torch.empty_like(residual)
    squares = torch.empty(-(-outputs // columns), rows, device=x.device, dtype=torch.float32)
    _launch(
        Normed(x), weight, outputs, out, tile,
        residual_ptr=residual, norm_ptr=norm, total_ptr=total, out_squares_ptr=squares, HAS_RESIDUAL=True,
    )  # fmt: skip
    return Normed(out, squares, eps), total


def _launch(x: Normed, weight: Tensor, outputs: int, out: Tensor, tile: Share | None, **epilogue: Any) -> Tensor:
    rows, width = x.rows.shape
    gated = epilogue.get("GATED", False)
    _check(x, weight, out, outputs, gated)
    if _one_row(rows, tile):
        return matvec(x, weight, outputs, out, **epilogue)
    tile = tile or _chosen(rows, weight, gated)
    if isinstance(tile, EarlyTile):
        return early(x, weight, outputs, out, tile, **epilogue)
    assert isinstance(tile, Tile)
    tiles = tile.count(rows, outputs)
    parts, tickets = None, None
    if tile.split > 1:
        assert tiles <= MOST_TILES
        parts = out.new_empty(tile.split * rows * outputs * (1 + gated), dtype=torch.float32)
        tickets = _tickets(out.device, torch.cuda.current_stream(out.device).cuda_stream if out.is_cuda else 0)
    squares, stride = x.squares, x.rows.stride(0)
    launch = overlap(out)
    even = width % (tile.terms * tile.split) == 0
    fetch = launch["OVERLAP"] and even and weight.dtype != torch.float32 and weight.numel() <= SMALL_WEIGHT
    arguments = {
        "x": TensorDescriptor(x.rows, [rows, width], [stride, 1], [tile.rows, tile.terms]) if tile.blocks else None,
        "weight": TensorDescriptor.from_tensor(weight, [tile.columns, tile.terms]) if tile.blocks else None,
        **PLAIN,
        **epilogue,
    }
    fused_linear_kernel[(tiles, tile.split)](
        x_ptr=x.rows, weight_ptr=weight, squares_ptr=squares, out_ptr=out, part_ptr=parts, ticket_ptr=tickets,
        x_stride=stride, out_stride=out.stride(0),
        squares_part=0 if squares is None else squares.stride(0),
        squares_row=0 if squares is None else squares.stride(1),
        rows=rows, outputs=outputs, width=width, parts=0 if squares is None else len(squares), eps=x.eps,
        BLOCK_M=tile.rows, BLOCK_N=tile.columns, BLOCK_K=tile.terms, SPLIT_K=tile.split,
        PARTS=0 if squares is None else triton.next_power_of_2(len(squares)),
        TALL=tile.rows <= 32, BLOCKS=tile.blocks, EVEN_K=width % tile.terms == 0,
        CHUNKS=_chunks(tile) if fetch else 0,
        PRECISION="ieee" if out.dtype == torch.float32 else None,
        num_warps=tile.warps, num_stages=tile.stages, **arguments, **launch,
    )  # fmt: skip
    return out


def early(x: Normed, weight: Tensor, outputs: int, out: Tensor, tile: EarlyTile, **epilogue: Any) -> Tensor:
    """`_launch` for a tile whose weights come early."""
    squares, (rows, width) = x.squares, x.rows.shape
    parts = 0 if squares is None else len(squares)
    steps = width // (tile.terms * tile.slices)
    assert steps * tile.terms * tile.slices == width and weight.dtype != torch.float32
    early_kernel[(tile.count(rows, outputs),)](
        x_ptr=x.rows, weight_ptr=weight, squares_ptr=squares, out_ptr=out,
        x_stride=x.rows.stride(0), out_stride=out.stride(0),
        squares_part=0 if squares is None else squares.stride(0),
        squares_row=0 if squares is None else squares.stride(1),
        rows=rows, outputs=outputs, width=width, parts=parts, eps=x.eps,
        BLOCK_M=tile.rows, BLOCK_N=tile.columns, TERMS=tile.terms, SLICES=tile.slices, STEPS=steps,
        PARTS=0 if squares is None else triton.next_power_of_2(parts), AHEAD=min(tile.ahead, steps),
        AT_ONCE=tile.rows <= AT_ONCE_ROWS,
        num_warps=tile.warps, num_stages=1, **(PLAIN | epilogue), **overlap(out),
    )  # fmt: skip
    return out


def matvec(x: Normed, weight: Tensor, outputs: int, out: Tensor, **epilogue: Any) -> Tensor:
    """`_launch` for one row."""
    squares, width = x.squares, x.rows.shape[1]
    parts = 0 if squares is None else len(squares)
    matvec_kernel[(triton.cdiv(outputs, MATVEC_OUTPUTS),)](
        x_ptr=x.rows, weight_ptr=weight, squares_ptr=squares, out_ptr=out, outputs=outputs, width=width, parts=parts,
        squares_part=0 if squares is None else squares.stride(0), eps=x.eps,
        OUTPUTS=MATVEC_OUTPUTS, BLOCK=triton.next_power_of_2(width),
        PARTS=0 if squares is None else triton.next_power_of_2(parts),
        num_warps=MATVEC_WARPS, **(PLAIN | epilogue), **overlap(out),
    )  # fmt: skip
    return out


def _chunks(tile: Tile) -> int:
    """Spans of 16 bytes or more that a weight row is fetched in, so that each thread asks for one."""
    return max(1, min(32 * tile.warps // tile.columns, tile.terms // 8))


def _one_row(rows: int, tile: Share | None) -> bool:
    return rows == 1 and tile is None and not is_fixed()


def _chosen(rows: int, weight: Tensor, gated: bool) -> Share:
    outputs, width = weight.shape
    return choose(planned(rows), outputs, width, gated, float32=weight.dtype == torch.float32)


def _check(x: Normed, weight: Tensor, out: Tensor, outputs: int, gated: bool) -> None:
    rows, width = x.rows.shape
    assert rows > 0 and weight.shape == (outputs * (1 + gated), width) and weight.is_contiguous()
    assert x.rows.stride(1) == out.stride(1) == 1 and out.shape == (rows, outputs)
    assert x.rows.dtype == weight.dtype == out.dtype
    assert x.squares is None or (x.squares.shape[1] == rows and x.squares.dtype == torch.float32)


@cache
def _tickets(device: torch.device, stream: int) -> Tensor:
    """One count per tile, which each launch leaves at zero. Kernels of one stream that split follow each other."""
    assert device.type != "cuda" or not torch.cuda.is_current_stream_capturing(), "run once on the stream, then capture"
    return torch.zeros(MOST_TILES, dtype=torch.int32, device=device)
