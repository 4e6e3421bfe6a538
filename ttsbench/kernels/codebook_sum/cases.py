"""Named shapes of the sum of codebook rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.codebook_sum import codebook_sum
from ttsbench.kernels.codebook_sum.reference import codebook_sum as plain
from ttsbench.kernels.work import LARGE, Sizes, Work, nbytes, over


@dataclass(frozen=True)
class Case:
    """`rows` frames of `books` codes, to vectors of `width`; the first code of every other frame lies past `size`."""

    name: str
    rows: int
    books: int
    size: int
    width: int


SMALL = (Case("one row", 1, 4, 7, 16), Case("odd width over two blocks", 3, 5, 9, 131))


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    return [Case(f"released, {rows} rows", rows, 16, 2048, 512)]


RELEASED = over((1, 32, 128), released)


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """codes (one of three frames that lie together), table, out of `dtype` full of NaN."""
    noise = torch.Generator().manual_seed(0)
    codes = torch.randint(case.size, (case.rows, 3, case.books), generator=noise)[:, 1]
    codes[1::2, 0] += case.size
    table = torch.randn(case.books * case.size, case.width, generator=noise)
    out = torch.full((case.rows, case.width), torch.nan, dtype=dtype)
    return codes.to(device), table.to(device), out.to(device)


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    codes, table, out = inputs(case, device, dtype)
    moved = codes.numel() * (codes.element_size() + case.width * table.element_size()) + nbytes(out)
    return Work(codebook_sum, plain, (codes, table, out), (table,), moved)
