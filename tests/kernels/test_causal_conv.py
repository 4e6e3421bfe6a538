"""The convolution kernel against the plain formula in float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.causal_conv import SnakeWeights, cases
from ttsbench.kernels.causal_conv.cases import Case, Inputs
from ttsbench.kernels.causal_conv.reference import causal_conv as reference
from ttsbench.kernels.causal_conv.tiles import LARGE, MULTIPROCESSORS, SQUARE, Tile, choose

TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 2e-2}
"""Of the largest output. Float32: sums of up to 10,000 terms in another order, each addition off by up to
6e-8 of the sum so far: 3e-5 was seen. Narrower types: their own bits, once, as
the kernel and the formula read the same rounded inputs and add in float32 or wider."""

TILES = (
    Tile(16, 16, 0, 16, warps=4, stages=2),
    Tile(16, 32, 16, 32, warps=4, stages=3),
    Tile(16, 32, 16, 32, warps=4, stages=3, split=3),
    Tile(16, 32, 16, 32, warps=4, stages=2, blocks=True),
    Tile(16, 16, 0, 16, warps=4, stages=2, split=3, blocks=True),
)
"""One accumulator, two, and sums in three parts of which the last is short; operands moved by threads and as blocks."""


def widened(given: Inputs) -> Inputs:
    """The same values in float64."""

    def wide(tensor):
        return None if tensor is None else tensor.double()

    conv = replace(given.conv, weight=given.conv.weight.double(), bias=given.conv.bias.double())
    snake = given.activation
    if isinstance(snake, SnakeWeights):
        snake = SnakeWeights(snake.frequency.double(), snake.gain.double())
    return Inputs(
        given.x.double(), conv, wide(given.residual), snake, wide(given.plain), wide(given.active),
    )  # fmt: skip


def compare(case: Case, device: str, dtype: torch.dtype, tile: Tile | None = None) -> None:
    from ttsbench.kernels.causal_conv.triton import causal_conv

    given = cases.inputs(case, device, dtype)
    want = widened(given)
    want.run(reference)
    for _ in range(2):  # the second call finds the tickets as the first has left them
        for output in (given.plain, given.active):
            if output is not None:
                output.fill_(torch.nan)
        given.run(causal_conv, tile=tile)
    assert not given.conv.tickets.any(), f"{case.name}, {tile}: tickets are left"
    for got, right in ((given.plain, want.plain), (given.active, want.active)):
        if got is not None and right is not None:
            error = (got.double() - right).abs().max() / right.abs().max()
            assert error <= TOLERANCE[dtype], f"{case.name}, {tile}, {dtype}: {error:.1e}"


def check(device: str) -> None:
    for case in cases.SMALL:
        for tile in TILES:
            if not (tile.blocks and case.channels % 8):  # the memory engine wants rows of whole 16 bytes
                compare(case, device, torch.float32, tile)
        compare(case, device, torch.float16, TILES[1])  # the interpreter's products know no bfloat16
    compare(cases.SMALL[-1], device, torch.float32)  # by the table


def test_the_kernel_gives_the_formula_in_the_interpreter() -> None:
    """Red when a tap reads one position off, a phase lands in another's place, an edge is not masked, the last part of
    a split sum is not added or a ticket is not returned."""
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_formula_on_a_gpu() -> None:
    check("cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 3, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_released_products_on_a_gpu(rows: int, dtype: torch.dtype) -> None:
    for case in cases.released(rows):
        compare(case, "cuda", dtype)


@pytest.mark.gpu
def test_split_sums_do_not_depend_on_who_comes_last() -> None:
    """Red when the last program adds the parts in the order of arrival."""
    from ttsbench.kernels.causal_conv.triton import causal_conv

    case = next(case for case in cases.released(1) if case.name == "unit 768 d9")
    given = cases.inputs(case, "cuda", torch.bfloat16)
    results = []
    for _ in range(50):
        given.run(causal_conv)
        assert given.active is not None
        results.append(given.active.clone())
    assert all(torch.equal(result, results[0]) for result in results)


def test_every_released_product_fills_the_gpu_or_cannot() -> None:
    """Red when a large batch gets small tiles, one stream's product stays in a few programs, or a long sum of some
    hundred rows is not split but cut into tiles of 32."""
    for rows in (1, 8, 32, 64, 128):
        for case in cases.released(rows):
            tile = choose(rows * case.length, case.taps, case.channels, case.width)
            programs = tile.count(rows * case.length, case.width) * tile.split
            assert programs >= 48 or case.taps == 1, f"{case.name} of {rows}: {programs} programs"
    assert choose(128 * 32, 7, 768, 768) == LARGE[0]
    assert choose(128 * 160, 7, 384, 384) == SQUARE
    assert choose(64 * 4, 7, 1024, 1536).rows == choose(64 * 4, 1, 4096, 1024).rows == 64


def test_split_sums_take_one_round_and_leave_every_part_some_steps() -> None:
    """Red when a multiprocessor gets two programs of a split sum, or a part fewer steps than fill its pipeline."""
    for rows in (1, 8, 32):
        for case in cases.released(rows):
            m = rows * case.length
            tile = choose(m, case.taps, case.channels, case.width)
            if tile.split > 1 and tile not in [replace(large, split=2) for large in LARGE]:
                assert tile.count(m, case.width) * tile.split <= MULTIPROCESSORS, f"{case.name} of {rows}: {tile}"
            assert tile.split == 1 or case.taps * case.channels >= 3 * tile.terms * tile.split


@pytest.mark.parametrize(
    ("m", "taps", "channels", "width", "best"),
    [
        (4, 1, 4096, 1024, Tile(16, 64, 0, 128, 4, 4, 8)),
        (4, 7, 1024, 1536, Tile(16, 64, 0, 128, 4, 4, 5)),
        (4, 2, 1536, 6144, Tile(16, 128, 0, 128, 4, 4, 2)),
        (32, 7, 768, 768, Tile(16, 64, 0, 128, 4, 4, 5)),
        (32, 1, 768, 768, Tile(16, 64, 0, 64, 4, 4, 4)),
        (160, 7, 384, 384, Tile(64, 64, 0, 64, 4, 4, 7, blocks=True)),
    ],
)
def test_one_stream_gets_what_was_fastest(m: int, taps: int, channels: int, width: int, best: Tile) -> None:
    """Red when the rule no longer gives what it was made from: the best of an H200, the 1x1 within 2 % of it."""
    assert choose(m, taps, channels, width) == best
