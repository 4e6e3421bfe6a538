"""Within `batch_invariant()` a row's bits do not depend on how many rows there are, nor on where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.kernels.test_fused_linear import outcome
from ttsbench.kernels.attention import cases as attention_cases
from ttsbench.kernels.causal_conv import cases as conv_cases
from ttsbench.kernels.causal_conv.cases import Case as ConvCase
from ttsbench.kernels.causal_conv.packed import TICKETS
from ttsbench.kernels.causal_conv.tiles import choose as choose_conv
from ttsbench.kernels.fused_linear import Normed, cases, is_fused
from ttsbench.kernels.fused_linear.cases import Case, Inputs
from ttsbench.kernels.invariant import ROWS, batch_invariant, is_fixed, planned

pytest.importorskip("triton", reason="Triton is not installed")
from ttsbench.kernels.attention import triton as attention_triton
from ttsbench.kernels.causal_conv import triton as conv_triton

F32 = torch.float32
SOME = (1, 2, 5, 8, 16, 17, 64, 100, 128)


def fail_inside() -> None:
    with batch_invariant():
        assert is_fixed()
        with batch_invariant():
            assert planned(1) == ROWS
        assert is_fixed()
        raise RuntimeError("inside")


def test_it_ends_with_its_block_whatever_happens() -> None:
    """Red when an error leaves it on for whoever comes next."""
    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    assert not is_fixed()
    assert planned(1) == 1


def test_products_are_cut_alike_for_any_number_of_rows() -> None:
    """Red when a launcher asks the table for the rows that there are (try `choose(rows, ...)` in `_chosen`), or when a
    single row goes its own way.
    """
    from ttsbench.kernels.fused_linear import triton

    for case in cases.released(1):
        gated = case.kind == "gated"
        weight = torch.empty(case.outputs * (1 + gated), case.width, dtype=torch.bfloat16, device="meta")
        with batch_invariant():
            assert len({triton._chosen(rows, weight, gated) for rows in SOME}) == 1, case.name
            assert not triton._one_row(1, None)
        assert len({triton._chosen(rows, weight, gated) for rows in SOME}) > 1, case.name
    assert triton._one_row(1, None)


class Chosen(Exception):
    pass


def ask_convolution(streams: int) -> None:
    conv_triton.causal_conv(
        *vars(conv_cases.inputs(ConvCase("layer", streams, 4, 32, 32, taps=3), "cpu", F32)).values()
    )


def ask_attention(rows: int) -> None:
    case = attention_cases.Case("decode", attention_cases.decode((3,) * rows), 4, 2, 16)
    attention_triton.paged_attention(*vars(attention_cases.inputs(case, "cpu", F32)).values())


@pytest.mark.parametrize(
    ("launcher", "ask"),
    [(conv_triton, ask_convolution), (attention_triton, ask_attention)],
    ids=["causal_conv", "attention"],
)
def test_launchers_ask_for_the_same_cut_whatever_comes(
    launcher: ModuleType, ask: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when one asks for the streams or rows that there are (try `rows` for `length * planned(streams)`, or `count`
    for `planned(count)`).
    """
    asked = set()

    def choose(rows: int, *_: object, **__: object) -> None:
        asked.add(rows)
        raise Chosen

    monkeypatch.setattr(launcher, "choose", choose)
    for rows in (1, 5, 128):
        with pytest.raises(Chosen):
            ask(rows)
    assert len(asked) == 3
    asked.clear()
    for rows in (1, 5, 128):
        with pytest.raises(Chosen), batch_invariant():
            ask(rows)
    assert len(asked) == 1


def test_tickets_suffice_for_the_convolutions_of_a_full_batch() -> None:
    """Sums stay split as for `ROWS` streams when there are many more. Red when there are fewer tickets than tiles."""
    for case in conv_cases.released(512):
        tile = choose_conv(ROWS * case.length, case.taps, case.channels, case.width)
        assert tile.split == 1 or tile.count(512 * case.length, case.width) <= TICKETS, case.name


def some_rows(given: Inputs, case: Case, rows: slice) -> tuple[Case, Inputs]:
    """The same product of some of the rows."""
    x, out = given.x, given.out
    squares = None if x.squares is None else x.squares[:, rows].contiguous()
    few = replace(
        given,
        x=Normed(x.rows[rows].contiguous(), squares, x.eps),
        plain=given.plain[rows],
        residual=None if given.residual is None else given.residual[rows].contiguous(),
        out=None if out is None else torch.empty_like(out[rows]),
    )
    return replace(case, rows=rows.stop - rows.start), few


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_products_row_does_not_know_the_others_on_a_gpu(dtype: torch.dtype) -> None:
    """Bits of one row, of few and of many, from any place. Red when few rows are cut in another way than many."""
    for case in cases.released(200):
        given = cases.inputs(case, "cuda", dtype)
        with batch_invariant():
            assert is_fused(1, given.weight)
            assert is_fused(1000, given.weight)
            whole = outcome(case, given, None)
            for rows in (slice(0, 1), slice(77, 78), slice(3, 11), slice(60, 100), slice(0, 128)):
                for many, few in zip(whole, outcome(*some_rows(given, case, rows), None), strict=True):
                    assert torch.equal(many[rows], few), f"{case.name}, {rows}"


def some_streams(given: conv_cases.Inputs, streams: slice) -> conv_cases.Inputs:
    def few(value: object) -> object:
        return value[:, streams].contiguous() if isinstance(value, Tensor) else value

    return conv_cases.Inputs(*(few(getattr(given, field.name)) for field in fields(given)))  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_convolutions_stream_does_not_know_the_others_on_a_gpu(dtype: torch.dtype) -> None:
    """As above, for every layer of the codec."""
    from ttsbench.kernels.causal_conv.triton import causal_conv

    for case in conv_cases.released(40):
        given = conv_cases.inputs(case, "cuda", dtype)
        with batch_invariant():
            given.run(causal_conv)
            for streams in (slice(0, 1), slice(39, 40), slice(5, 13)):
                alone = some_streams(given, streams)
                for output in (alone.plain, alone.active):
                    if output is not None:
                        output.fill_(torch.nan)
                alone.run(causal_conv)
                for many, few in ((given.plain, alone.plain), (given.active, alone.active)):
                    assert many is None or few is None or torch.equal(many[:, streams], few), f"{case.name}, {streams}"
