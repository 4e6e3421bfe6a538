"""The fused products against the plain formulas in float64."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.fused_linear import (
    MOST_ROWS,
    Normed,
    cases,
    gated_linear,
    is_fused,
    linear,
    reference,
    residual_linear,
)
from ttsbench.kernels.fused_linear.cases import Case, Inputs
from ttsbench.kernels.fused_linear.tiles import TUNED, EarlyTile, Share, Tile, bucket_of, by_rule, choose
from ttsbench.kernels.work import RELEASED, Sizes

TOLERANCE = {torch.float32: 5e-6, torch.float16: 2e-3, torch.bfloat16: 2**-6}
"""Of the largest output. Float32: sums of up to 6,144 terms in another order. Narrower types: rows, where they carry
the norm's weight, and outputs are rounded once each, to 11 and 8 bits; the formula rounds nothing."""

TILES = (
    Tile(16, 16, 16, warps=4, stages=2),
    Tile(32, 32, 32, warps=4, stages=3, split=3),
    Tile(64, 16, 32, warps=4, stages=2, split=2),
)
"""Weights as the tall side; split in three parts of which the last may be short or empty; rows as the tall side."""

BLOCKS = Tile(16, 16, 16, warps=4, stages=2, blocks=True)
"""Moved by the memory engine, which wants rows of whole 16 bytes."""


EARLY = (
    EarlyTile(8, 8, terms=16, slices=2, warps=2),
    EarlyTile(16, 32, terms=16, slices=2, warps=4),
)
"""Weights before the wait, of rows of whole 32 terms: all rows of input at once, and each step after the other."""


def expected(case: Case, given: Inputs) -> list[Tensor]:
    """Outputs in float64."""
    weight = given.weight.double()
    if case.kind == "gated":
        return [reference.gated_linear(given.plain, weight)]
    if case.kind == "residual":
        assert given.residual is not None
        assert given.norm is not None
        return list(reference.residual_linear(given.plain, weight, given.residual.double(), given.norm.double(), 1e-6))
    return [reference.linear(given.plain, weight, None if given.bias is None else given.bias.double())]


def outcome(case: Case, given: Inputs, tile: Share | None) -> list[Tensor]:
    from ttsbench.kernels.fused_linear import triton

    if case.kind == "gated":
        return [triton.gated_linear(given.x, given.weight, tile)]
    if case.kind == "residual":
        assert given.residual is not None
        assert given.norm is not None
        normed, total = triton.residual_linear(given.x.rows, given.weight, given.residual, given.norm, given.eps, tile)
        assert normed.squares is not None
        return [normed.finished(), total]
    return [triton.linear(given.x, given.weight, given.bias, given.out, tile)]


def compare(case: Case, device: str, dtype: torch.dtype, tile: Share | None = None) -> None:
    given = cases.inputs(case, device, dtype)
    for _ in range(2):  # the second call finds the tickets as the first has left them
        for got, want in zip(outcome(case, given, tile), expected(case, given), strict=True):
            assert (got.shape, got.dtype) == (want.shape, dtype), case.name
            error = float((got.double() - want).abs().max() / want.abs().max())
            assert error <= TOLERANCE[dtype], f"{case.name}, {tile}, {dtype}: {error:.1e}"
    if given.out is not None:
        assert not given.out._base[:, 0].any(), f"{case.name}: written between the rows"  # type: ignore[index]


def check(device: str, dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float16)) -> None:
    for case in cases.SMALL:
        for dtype in dtypes:
            compare(case, device, dtype)
            for tile in TILES:
                compare(case, device, dtype, tile)
            if case.width % 8 == 0:
                compare(case, device, dtype, BLOCKS)
            if case.width % 32 == 0 and dtype != torch.float32:
                for early in EARLY:
                    compare(case, device, dtype, early)


def test_the_kernels_give_the_formulas_in_the_interpreter() -> None:
    """Red when a row, column or term past the end enters a sum, gate and up change places, the residual is added after
    the norm, a part of a split sum or of a row's squares is left out, or a ticket is not returned.
    """
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernels_give_the_formulas_on_a_gpu() -> None:
    check("cuda", tuple(TOLERANCE))


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 2, 8, 13, 16, 32, 64, 128, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_released_products_on_a_gpu(rows: int, dtype: torch.dtype) -> None:
    """Red when a tile of the table does not fit its product."""
    for case in cases.released(rows):
        compare(case, "cuda", dtype)


@pytest.mark.gpu
def test_split_sums_do_not_depend_on_who_comes_last() -> None:
    """Red when the last program adds the parts in the order of arrival."""
    case = next(case for case in cases.released(8) if case.name == "down of 2048")
    given = cases.inputs(case, "cuda", torch.bfloat16)
    tile = Tile(16, 64, 64, warps=4, stages=4, split=4)
    first, *others = (outcome(case, given, tile) for _ in range(50))
    assert all(torch.equal(ours, theirs) for other in others for ours, theirs in zip(other, first, strict=True))


@pytest.mark.gpu
def test_a_chain_of_kernels_in_a_graph_waits_for_each_other() -> None:
    """Each product takes what the one before wrote, many times over. Red when a kernel reads or writes before it has
    waited, or does not wait at all.
    """
    noise = torch.Generator("cuda").manual_seed(0)
    weights = [torch.randn(512, 512, generator=noise, device="cuda").bfloat16() / 512**0.5 for _ in range(8)]
    for rows in (1, 8, 64):
        x = torch.randn(rows, 512, generator=noise, device="cuda").bfloat16()

        def chain(x: Tensor = x) -> Tensor:
            y = x
            for _ in range(4):
                for weight in weights:
                    y = linear(y, weight)
            return y

        def stepwise(x: Tensor = x) -> Tensor:
            y = x
            for _ in range(4):
                for weight in weights:
                    y = linear(y, weight)
                    torch.cuda.synchronize()
            return y

        want, stream, graph = stepwise(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            chain()
        with torch.cuda.graph(graph, stream=stream):
            got = chain()
        for _ in range(20):
            graph.replay()
            assert torch.equal(got, want)


def test_a_cpu_takes_the_plain_operations() -> None:
    """Bit for bit what stood there before. Red when the CPU's rows are left without their norm."""
    x, weight, residual, norm = (torch.randn(*shape) for shape in ((3, 24), (24, 24), (3, 24), (24,)))
    normed, total = residual_linear(x, weight, residual, norm, 1e-6)
    assert normed.squares is None
    assert torch.equal(total, F.linear(x, weight) + residual)
    assert torch.equal(normed.rows, F.rms_norm(total, (24,), eps=1e-6) * norm)
    assert torch.equal(linear(normed, weight), F.linear(normed.rows, weight))
    gate, up = F.linear(x, weight).chunk(2, dim=1)
    assert torch.equal(gated_linear(Normed(x), weight), F.silu(gate) * up)
    into = torch.zeros(3, 2, 24)
    linear(x, weight, out=into[:, 0])
    assert torch.equal(into[:, 0], F.linear(x, weight))
    assert not into[:, 1].any()


def test_finishing_is_the_norm() -> None:
    """Red when parts are averaged rather than added, or eps is left out."""
    total, weight = torch.randn(4, 24, dtype=torch.float64) * 1e-3, torch.randn(24, dtype=torch.float64)
    parts = total.view(4, 3, 8).square().sum(2).T
    want = F.rms_norm(total, (24,), eps=1e-6) * weight
    assert torch.allclose(Normed(total * weight, parts, 1e-6).finished(), want, rtol=1e-12)
    assert torch.allclose(Normed(total * weight, parts, 1e-6).every(1, 2).finished(), want[1::2], rtol=1e-12)


def is_ours(rows: int, outputs: int, width: int) -> bool:
    """Whether a GPU's product of so many rows is a kernel's here and not the library's."""
    return is_fused(rows, cast(Tensor, SimpleNamespace(is_cuda=True, shape=(outputs, width))))


def test_the_librarys_products_are_named_as_such() -> None:
    """Those of the 1.7B talker whose last tile of rows is not full; narrower ones are not. Red when a benchmark
    would take the library's time for a kernel's.
    """
    for outputs, width in ((4096, 2048), (2048, 6144), (12288, 2048)):
        weight = cast(Tensor, SimpleNamespace(is_cuda=True, shape=(outputs, width)))
        named = [rows for rows in (1, 8, 16, 17, 32, 63, 64, 128) if cases.is_the_librarys(rows, weight)]
        assert named == [17, 32, 63]
    narrow = cast(Tensor, SimpleNamespace(is_cuda=True, shape=(4096, 1024)))
    assert not any(cases.is_the_librarys(rows, narrow) for rows in (1, 32, 128))
    assert not cases.work(cases.SMALL[0], "cpu", torch.float32).is_librarys


@pytest.mark.parametrize("key", TUNED, ids=str)
def test_the_table_has_what_is_asked_for_and_the_rule_does_not_say(key: tuple[int, int, int, bool]) -> None:
    """Red when an entry is for rows that the library gets, or says again what the rule does."""
    bucket, outputs, width, gated = key
    rows = [count for count in range(1, MOST_ROWS + 1) if bucket_of(count) == bucket]
    assert any(is_ours(count, outputs, width) for count in rows)
    assert TUNED[key] != by_rule(bucket, outputs, width, gated)


@pytest.mark.parametrize("rows", [2, 8, 16, 32, 64, 128, 256])
def test_every_released_product_keeps_the_gpu_busy(rows: int) -> None:
    """Red when a product of a decode step stays in a few programs, or a program's rows are mostly padding beyond the
    smallest block that the matrix unit takes at such a size.
    """
    for case in cases.released(rows):
        gated = case.kind == "gated"
        if not is_ours(rows, case.outputs * (1 + gated), case.width):
            continue
        tile = choose(rows, case.outputs * (1 + gated), case.width, gated)
        programs = tile.count(rows, case.outputs) * (tile.split if isinstance(tile, Tile) else 1)
        assert programs >= 64, case.name
        assert tile.rows <= (16 if rows <= 16 else 64), case.name


@pytest.mark.parametrize("rows", [2, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("sizes", RELEASED.values(), ids=RELEASED.keys())
def test_two_programs_fit_on_a_multiprocessor(rows: int, sizes: Sizes) -> None:
    """Red when a tile takes so much shared memory that a launch cannot begin beside the one before, or the codec not
    beside either.
    """
    for case in cases.released(rows, sizes):
        gated = case.kind == "gated"
        if not is_ours(rows, case.outputs * (1 + gated), case.width):
            continue
        tile = choose(rows, case.outputs * (1 + gated), case.width, gated)
        if isinstance(tile, Tile):
            terms = tile.stages * (tile.rows + tile.columns * (1 + gated)) * tile.terms
        else:
            assert isinstance(tile, EarlyTile)
            terms = tile.columns * (1 + gated) * case.width + tile.rows * tile.terms * tile.slices
        assert 2 * terms <= 104 * 1024, case.name
