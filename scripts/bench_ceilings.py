"""What a device does at best, measured now, and how long something takes on it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

REPEATS = 50


@dataclass(frozen=True)
class Ceilings:
    """Memory bandwidth and matrix rate."""

    bytes_per_s: float
    flops_per_s: float

    @classmethod
    def measured(cls, device: torch.device) -> Ceilings:
        """A copy of 4 GB, counting bytes read and written, and an 8,192-cubed bf16 product of random numbers."""
        source = torch.randint(0, 256, (4 << 30,), dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        copy_us = timed(lambda: target.copy_(source), repeats=10)
        a, b = (torch.randn(8192, 8192, device=device, dtype=torch.bfloat16) for _ in range(2))
        product_us = timed(lambda: a @ b, repeats=10)
        return cls(2 * source.nbytes / copy_us * 1e6, 2 * 8192**3 / product_us * 1e6)

    def floor_us(self, num_bytes: float, flops: float) -> float:
        """The least time for so much work."""
        return 1e6 * max(num_bytes / self.bytes_per_s, flops / self.flops_per_s)


def timed(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median device microseconds of one call."""
    for _ in range(3):
        work()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for begin, end in events:
        begin.record()
        work()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(1000 * begin.elapsed_time(end) for begin, end in events)
