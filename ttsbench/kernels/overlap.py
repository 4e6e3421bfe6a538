"""Kernels that begin while the one before them still runs: programmatic dependent launch, from compute capability 9.0.

A kernel launched so may start as soon as every program of the kernel before it has said `let_next_start`. It works in
three parts: what it can do early, `wait_for_previous`, `let_next_start` and the rest. As nothing is let in before the
wait, at most two kernels of the chain are on a multiprocessor, one at work and one that waits, and what runs beside the
chain finds room; that so little is early costs less. Only where programs are small may a kernel let the next start at
once.

Rules keep the order of memory. Early a program writes nothing, and reads what is settled: weights, tables, what the
host has sent, and what was written before a kernel in front of it that lets the next start after its wait. That
kernel's wait has ended by then, so all before it have ended: attention reads the keys of earlier steps, but not what
the kernel in front of it writes, nor, if that let it start at once, the one before that, and so on, back to and
including the first that let the next start after its wait. And every kernel of the chain waits, also one that needs
nothing: a wait ends when the kernel before has ended, which has waited in turn. Captured graphs keep these edges.
Fetching into the L2 cache is allowed at any time: all multiprocessors share it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


def overlap(like: Tensor) -> dict[str, Any]:
    """Launch options of a kernel that has a constexpr OVERLAP and works on the device of `like`."""
    return {"OVERLAP": True, "launch_pdl": True} if _can_overlap(like.device) else {"OVERLAP": False}


@cache
def _can_overlap(device: torch.device) -> bool:
    """False also in the interpreter, whose tensors are on the CPU."""
    supported = device.type == "cuda" and torch.version.hip is None
    return supported and torch.cuda.get_device_capability(device) >= (9, 0)


@triton.jit  # type: ignore[untyped-decorator]
def let_next_start(OVERLAP: tl.constexpr):  # type: ignore[no-untyped-def]
    """The next kernel may be launched. Said after the wait, unless programs are small: kernels that wait take room, and
    said first of all it lets one more begin behind each of them, until nothing beside the chain finds a place.
    """
    if OVERLAP:
        gdc_launch_dependents()


@triton.jit  # type: ignore[untyped-decorator]
def wait_for_previous(OVERLAP: tl.constexpr):  # type: ignore[no-untyped-def]
    """All that the kernels before this one have written can be read now, all that they read may be overwritten."""
    if OVERLAP:
        gdc_wait()


@triton.jit  # type: ignore[untyped-decorator]
def follow(OVERLAP: tl.constexpr):  # type: ignore[no-untyped-def]
    """First statement of a kernel that touches nothing early. Whatever starts after it follows all before it: where one
    such kernel stands between a writer and a reader, the reader may read before its wait.
    """
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()


@triton.jit
def fetch_spans(pointers, num_bytes):  # type: ignore[no-untyped-def]
    """Begin to bring `num_bytes` from each of `pointers` into the L2 cache; both are multiples of 16."""
    tl.inline_asm_elementwise(
        "cp.async.bulk.prefetch.L2.global [$1], $2; mov.b32 $0, 0;",
        "=r,l,r",
        [pointers.to(tl.int64), num_bytes],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def fetch_lines(pointers, wanted):  # type: ignore[no-untyped-def]
    """Begin to bring the 128 bytes around each of `pointers` into the L2 cache, where `wanted` is true."""
    tl.inline_asm_elementwise(
        "{.reg .pred p; setp.ne.s32 p, $2, 0; @p prefetch.global.L2 [$1]; mov.b32 $0, 0;}",
        "=r,l,r",
        [pointers.to(tl.int64), wanted.to(tl.int32)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
