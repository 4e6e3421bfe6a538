"""Named frames on their way to the host."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.pack_frame import pack_frame
from ttsbench.kernels.pack_frame.reference import pack_frame as plain
from ttsbench.kernels.work import LARGE, Sizes, Work, nbytes, over


@dataclass(frozen=True)
class Case:
    """Rows with any flags; from the second on, every third has a sample that is no number, or infinite."""

    name: str
    rows: int
    hop: int
    books: int


SMALL = (
    Case("one row", 1, 24, 16),
    Case("odd hop", 7, 37, 3),
    Case("one codebook", 5, 16, 1),
)


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    return [Case(f"released, {rows} rows", rows, 1920, 16)]


RELEASED = over((1, 32, 128), released)


@dataclass(frozen=True)
class Inputs:
    """In the order of the operation's arguments."""

    pcm: Tensor
    report: Tensor
    out: Tensor


def inputs(case: Case, device: torch.device | str) -> Inputs:
    noise = torch.Generator().manual_seed(0)
    pcm = torch.rand(case.rows, case.hop, generator=noise) * 2 - 1
    for row in range(1, case.rows, 3):
        pcm[row, 5 * row % case.hop] = (float("nan"), float("inf"), -float("inf"))[row // 3 % 3]
    report = torch.randint(0, 3072, (case.rows, case.books + 2), generator=noise)
    report[:, case.books] %= 8
    return Inputs(pcm.to(device), report.to(device), torch.full((case.rows, case.hop + case.books + 1), 7.0).to(device))


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    """Whatever the `dtype`: samples are float32."""
    given = inputs(case, device)
    return Work(pack_frame, plain, tuple(vars(given).values()), (), nbytes(*vars(given).values()))
