"""Programmatic dependent launch: a kernel may start while the one before it on its stream still runs.

A kernel launched with `**overlapping(device)` calls `follow(OVERLAP)` before its first load and its first store: it
waits until all memory of the kernels before it is written, then lets the next one start. What is saved is the launch:
the next kernel's programs stand ready on the multiprocessors when the last one ends. All kernels in a row may do so,
as each has waited for its own predecessor before it can end; a kernel that knows nothing of this is a full barrier.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit  # type: ignore[untyped-decorator]
def follow(OVERLAP: tl.constexpr):  # type: ignore[no-untyped-def]
    """First statement of a kernel that is launched overlapping."""
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()


def overlapping(device: torch.device) -> dict[str, Any]:
    """Launch options; the device must know the instruction, and the interpreter has no device."""
    supported = device.type == "cuda" and _supported(device)
    return {"OVERLAP": supported, "launch_pdl": supported}


@cache
def _supported(device: torch.device) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (9, 0)
