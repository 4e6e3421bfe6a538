"""Named shapes of the tails' shift."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.kernels.shift_tails import place_tails, shift_tails
from ttsbench.kernels.shift_tails.packed import TailPlan, TailSite
from ttsbench.kernels.shift_tails.reference import place_tails as place_reference
from ttsbench.kernels.shift_tails.reference import shift_tails as shift_reference
from ttsbench.kernels.work import LARGE, Sizes, Work, over


@dataclass(frozen=True)
class Case:
    """`rows` streams through `sites`."""

    name: str
    rows: int
    sites: tuple[TailSite, ...]


_BLOCKS = ((32, 768), (160, 384), (640, 192), (1920, 96))
_RELEASED = (
    TailSite(512, 1, 2),
    TailSite(1024, 2, 6),
    TailSite(1024, 4, 6),
    TailSite(1024, 4, 6),
    TailSite(1536, 4, 1),
    *(TailSite(channels, n, tail) for n, channels in _BLOCKS for tail in (6, 18, 54)),
    *(TailSite(channels, n, 1) for n, channels in _BLOCKS[:3]),
    TailSite(96, 1920, 6),
)

SMALL = (
    Case("shorter, equal and longer than the frame", 3, (TailSite(16, 9, 6), TailSite(32, 4, 4), TailSite(16, 1, 54))),
    Case("odd widths", 2, (TailSite(7, 3, 2), TailSite(13, 2, 18))),
    Case("more than one program", 1, (TailSite(160, 32, 54),)),
)


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """All convolutions of the codec."""
    return [Case(f"released, {rows} rows", rows, _RELEASED)]


RELEASED = over((1, 32, 128), released)


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, TailPlan]:
    """inputs, tails, slots, plan; the plan has room for one row and two slots more."""
    noise = torch.Generator().manual_seed(0)
    plan = TailPlan(case.sites, case.rows + 2, case.rows + 1, device)
    slots = torch.randperm(case.rows + 2, generator=noise)[: case.rows].to(device)
    drawn = torch.Generator(device).manual_seed(0)  # on the device: at 128 rows there are 180 million
    flat = torch.randn(plan.input_size, generator=drawn, device=device).to(dtype)
    tails = torch.randn(plan.tail_size, generator=drawn, device=device).to(dtype)
    return flat, tails, slots, plan


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    """Both launches of a frame: every tail row is read and written when it is placed, and again when it is taken."""
    flat, tails, slots, plan = inputs(case, device, dtype)
    position = torch.zeros(plan.num_slots, dtype=torch.int64, device=device)
    moved = 4 * case.rows * sum(site.tail * site.channels for site in case.sites) * tails.element_size()
    return Work(_both, _both_plain, (flat, tails, slots, plan, position), (tails,), moved)


def _both(flat: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan, position: Tensor) -> None:
    place_tails(flat, tails, slots, plan)
    shift_tails(flat, tails, slots, plan, position)


def _both_plain(flat: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan, position: Tensor) -> None:
    place_reference(flat, tails, slots, plan)
    shift_reference(flat, tails, slots, plan, position)
