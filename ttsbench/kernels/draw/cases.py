"""Draws with names: what tests compare and the benchmark times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from ttsbench.core import DrawParams
from ttsbench.kernels import draw
from ttsbench.kernels.draw import reference
from ttsbench.kernels.draw.philox import frame_uniforms
from ttsbench.kernels.draw.types import Drawn, DrawSettings, FirstCodeRules, FrameMemo, RowNorm, Rows
from ttsbench.kernels.work import LARGE, PREDICTOR, Sizes, Work, nbytes

PUBLISHED = DrawParams()
NUM_CODEBOOKS = 16

MIXED = (
    PUBLISHED,
    DrawParams(do_sample=False, temperature=0.3, top_k=3),
    DrawParams(top_k=0),
    DrawParams(top_k=1),
    DrawParams(top_k=2, temperature=2.0),
    DrawParams(top_k=5000, temperature=0.5),
    DrawParams(top_k=200),
    DrawParams(top_k=0, top_p=0.8),
    DrawParams(top_k=50, top_p=0.5, temperature=1.3),
    DrawParams(top_k=0, top_p=0.01),
)
"""Neighbours that ask for everything a row can ask for."""


@dataclass(frozen=True)
class Case:
    """A batch of rows; slots take the `params` in turn, and rows sit on slots in no order."""

    name: str
    rows: int
    vocabulary: int
    width: int
    """Of the embedding table."""
    params: tuple[DrawParams, ...] = (PUBLISHED,)
    dtype: torch.dtype = torch.float32
    first: bool = False
    """Codebook 0, which has rules of its own."""
    tied: bool = False
    """Logits on a coarse grid: many are equal, at the k-th largest too."""
    copies: bool = True
    """Whether an embedding is fetched."""
    normed: bool = False
    """Whether it is normed on the way."""


CASES = (
    Case("one row", 1, 2048, 1024),
    Case("predictor, 8 rows", 8, 2048, 2048, dtype=torch.bfloat16),
    Case("predictor, 128 rows", 128, 2048, 2048, dtype=torch.bfloat16),
    Case("predictor, 128 rows, nucleus", 128, 2048, 2048, (DrawParams(top_p=0.9),), torch.bfloat16),
    Case("predictor, 128 rows, normed", 128, 2048, 1024, dtype=torch.bfloat16, normed=True),
    Case("predictor, last codebook", 32, 2048, 2048, dtype=torch.bfloat16, copies=False),
    Case("talker, one row", 1, 3072, 2048, dtype=torch.bfloat16, first=True),
    Case("talker, 128 rows", 128, 3072, 2048, dtype=torch.bfloat16, first=True),
    Case("talker, mixed settings", 54, 3072, 24, MIXED, first=True),
    Case("talker, mixed settings, tied", 27, 3072, 24, MIXED, first=True, tied=True),
    Case("mixed settings", 54, 256, 24, MIXED),
    Case("mixed settings, tied", 54, 256, 24, MIXED, tied=True),
    Case("odd vocabulary", 27, 301, 7, MIXED),
    Case("odd vocabulary, normed", 9, 301, 7, MIXED, torch.bfloat16, normed=True),
    Case("float32, normed", 9, 256, 24, MIXED, normed=True),
    Case("odd vocabulary with control ids, tied", 27, 301, 7, MIXED, first=True, tied=True),
)
SMALL = CASES


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """The talker's draw, the code predictor's, and one with a nucleus."""
    width, kind, nucleus = PREDICTOR.width, torch.bfloat16, (DrawParams(top_p=0.9),)
    return [
        Case(f"released, talker, {rows} rows", rows, 3072, width, dtype=kind, first=True),
        Case(f"released, predictor, {rows} rows", rows, 2048, width, dtype=kind, normed=True),
        Case(f"released, predictor, {rows} rows, nucleus", rows, 2048, width, nucleus, kind),
    ]


@dataclass(frozen=True, eq=False)
class Inputs:
    """All a draw takes, and where it writes: `out` is every second row of its memory."""

    logits: Tensor
    rows: Rows
    settings: DrawSettings
    rules: FirstCodeRules | None
    drawn: Drawn
    table: Tensor
    out: Tensor | None
    norm: RowNorm | None = None


def settings_of(params: Sequence[DrawParams], device: torch.device | str = "cpu") -> DrawSettings:
    """Settings of as many slots as there are `params`."""
    return DrawSettings(
        sample=torch.tensor([p.do_sample for p in params], dtype=torch.bool, device=device),
        temperature=torch.tensor([p.temperature for p in params], dtype=torch.float32, device=device),
        top_k=torch.tensor([p.top_k for p in params], dtype=torch.int32, device=device),
        top_p=torch.tensor([p.top_p for p in params], dtype=torch.float32, device=device),
    )


def make(case: Case, device: torch.device | str = "cpu", seed: int = 0, most_rows: int | None = None) -> Inputs:
    """The inputs of a case, the same on every device; `most_rows` cuts it short where draws are slow."""
    random = torch.Generator().manual_seed(seed)
    B, V = min(case.rows, most_rows or case.rows), case.vocabulary
    S = B + 3
    logits = torch.randn(B, V, generator=random) * 3
    if case.tied:
        logits = (logits * 2).round() / 4
    rows = Rows(
        slots=torch.randperm(S, generator=random)[:B].to(device),
        frames=torch.randint(0, 6, (B,), generator=random).to(device),
        seeds=torch.randint(0, 2**62, (S,), generator=random).to(device),
    )
    table = torch.randn(V + 3, case.width, generator=random).to(case.dtype)
    squares = table.float().square().sum(1).to(device)
    table = table.to(device)
    norm = None
    if case.normed:
        weight = torch.randn(case.width, generator=random).to(table)
        norm = RowNorm(weight, squares, table.new_zeros(B, case.width), torch.zeros_like(squares[:B]))
    return Inputs(
        logits=logits.to(device, case.dtype),
        rows=rows,
        settings=settings_of([case.params[i % len(case.params)] for i in range(S)], device),
        rules=_rules(S, V, random, device) if case.first else None,
        drawn=Drawn(torch.full((B, NUM_CODEBOOKS), -1, device=device), torch.ones(B, dtype=torch.bool, device=device)),
        table=table,
        out=torch.zeros(B, 2, case.width, device=device, dtype=case.dtype)[:, 1] if case.copies else None,
        norm=norm,
    )


def _rules(S: int, V: int, random: torch.Generator, device: torch.device | str) -> FirstCodeRules:
    """The last third of the ids are control ids, as in the published vocabulary; half of the slots are too young."""
    return FirstCodeRules(
        penalty=(0.8 + torch.rand(S, generator=random)).to(device),
        min_frames=torch.randint(0, 6, (S,), generator=random).int().to(device),
        seen=(torch.rand(S, V, generator=random) < 0.3).to(device),
        eos=V * 2 // 3 + V // 30,
        first_control_id=V * 2 // 3,
    )


BOOK = 5
"""Of a draw that is not the first."""


class Draws(Protocol):
    """A module with both draws, or what stands for one."""

    @property
    def draw_first_code(self) -> Callable[..., None]: ...

    @property
    def draw_code(self) -> Callable[..., None]: ...


def run(module: Draws, given: Inputs) -> Tensor:
    """Draw by `module` as the case says; the codes [B]."""
    if given.rules is not None:
        assert given.out is not None
        module.draw_first_code(
            given.logits, given.rows, given.settings, given.rules, given.drawn, given.table, given.out
        )
        return given.drawn.codes[:, 0]
    table = None if given.out is None else given.table
    module.draw_code(BOOK, given.logits, given.rows, given.settings, given.drawn, table, given.out, given.norm)
    return given.drawn.codes[:, BOOK]


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    """Torch gets its random numbers, and what its rows ask for, ready made: it would look at them on the host."""
    given = make(replace(case, dtype=dtype), device)
    rows = given.rows
    known = replace(rows, memo=FrameMemo(frame_uniforms(rows.seeds[rows.slots], rows.frames, NUM_CODEBOOKS)))
    seen = None if given.rules is None else given.rules.seen[rows.slots]
    moved = nbytes(given.logits, seen) + 2 * nbytes(given.out)
    return Work(
        kernel=lambda given: run(draw, given),
        plain=lambda given: run(reference, replace(given, rows=known)),
        given=(given,),
        cold=(given.table, None if given.rules is None else given.rules.seen),
        num_bytes=moved,
    )
