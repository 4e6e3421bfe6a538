"""Named frames: what their codes make of the talker's inputs, and of the report."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.next_input import next_input
from ttsbench.kernels.next_input.reference import FrameRows
from ttsbench.kernels.next_input.reference import next_input as plain
from ttsbench.kernels.work import LARGE, Sizes, Work, nbytes, over


@dataclass(frozen=True)
class Case:
    """A batch of rows; a third of them have text waiting, some end, some have their last frame, some are not sound."""

    name: str
    rows: int
    books: int
    width: int
    vocabulary: int = 90
    codebook: int = 40
    padding: int = 0
    """Rows at the end that share the last slot and one place, as rows that pad a graph do."""


SMALL = (
    Case("one row", 1, 16, 24),
    Case("odd width, two codebooks", 5, 2, 37),
    Case("more than one program a row", 6, 3, 1030),
    Case("padded", 9, 4, 24, padding=4),
)


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    return [Case(f"released, {rows} rows of {sizes.width}", rows, 16, sizes.width, vocabulary=3072, codebook=2048)]


RELEASED = over((1, 32, 128), released)


@dataclass(frozen=True)
class Inputs:
    """In the order of the operation's arguments."""

    codes: Tensor
    sound: Tensor
    table: Tensor
    offsets: Tensor
    rows: FrameRows
    inputs: Tensor
    report: Tensor


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype) -> Inputs:
    noise = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=noise).to(device, dtype)

    def whole(high: int, *shape: int) -> Tensor:
        return torch.randint(0, high, shape, generator=noise)

    rows, books, slots, places = case.rows, case.books, case.rows + 2, 3 * case.rows + 5
    eos = case.vocabulary - 1
    codes = torch.cat((whole(case.vocabulary, rows, 1), whole(case.codebook, rows, books - 1)), dim=1)
    codes[1::4, 0] = eos
    taken, where = (torch.randperm(n, generator=noise)[:rows] for n in (slots - 1, places - 1))
    where_padded = slice(rows - case.padding, rows)
    taken[where_padded], where[where_padded] = slots - 1, places - 1
    frames = whole(30, rows)
    limits = whole(30, slots)
    limits[taken[::2]] = frames[::2] + 1 + whole(2, len(frames[::2]))
    sizes = torch.tensor([0, case.vocabulary, *[case.codebook] * (books - 2)])
    return Inputs(
        codes=codes.to(device),
        sound=(whole(4, rows) > 0).to(device),
        table=normal(case.vocabulary + (books - 1) * case.codebook, case.width),
        offsets=sizes.cumsum(0).to(device),
        rows=FrameRows(
            slots=taken.to(device),
            frames=frames.to(device),
            inputs=where.to(device),
            has_text=(whole(3, rows) == 0).to(device),
            pads=normal(slots, case.width),
            limits=limits.to(device),
            eos=eos,
        ),
        inputs=normal(places, case.width),
        report=torch.full((rows, books + 2), -1).to(device),
    )


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    """Of each row: an embedding per codebook, a text or pad row, and the next input."""
    given = inputs(case, device, dtype)
    moved = case.rows * (case.books + 2) * case.width * given.table.element_size()
    moved += nbytes(given.codes, given.report)
    cold = (given.table, given.inputs, given.rows.pads)
    return Work(next_input, plain, tuple(vars(given).values()), cold, moved)
